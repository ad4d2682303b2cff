"""Order of execution, schedule of rows, offsets in the arena, and the proof that the plan is correct."""
