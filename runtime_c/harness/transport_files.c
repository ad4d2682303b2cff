/* Runs many samples through files of the host, by semihosting. Command line: fw IN OUT STATS [layers]
 *
 * IN     samples, one after the other; each is all inputs of the bundle in order, raw bytes.
 * OUT    for each sample all outputs in order, raw bytes; with `layers`, before them the outputs of every layer.
 * STATS  lines of text:
 *            protocol=1
 *            bundle=HASH
 *            empty=TICKS INTERRUPTS         what measuring a run costs (one instruction, a return, included)
 *            empty_layer=TICKS INTERRUPTS   the same for a layer
 *            loop=TICKS INTERRUPTS          a loop of LOOP_COUNT rounds, once without interrupts and once with
 *            stack_bytes=N                  of one run, on an arena of zeros
 *            run=TICKS INTERRUPTS           for each sample; or with `layers`
 *            layer=TICKS INTERRUPTS         for each layer of each sample
 *            runs=N                         last: how many samples were run
 *
 * The arena is filled with another byte before every sample, so that a bundle that reads memory it has not written
 * gives different bits. */
#include <string.h>

#include "harness.h"
#include "line.h"
#include "semihost.h"

#define LOOP_COUNT 20000u
#define LOOP_PERIOD 4096u
#define MAX_WORDS 5

typedef struct {
    const ge_bundle *bundle;
    int32_t in, out, stats;
    uint32_t sample_bytes, samples;
} session;

/* Reports what went wrong and returns the exit code. */
static int32_t failure(int32_t code, const char *what, const char *detail) {
    ge_semihost_say("ERROR ");
    ge_semihost_say(what);
    ge_semihost_say(detail);
    ge_semihost_say("\n");
    return code;
}

/* Cuts the text at its spaces; words after the last one wanted are dropped. */
static int32_t split(char *text, const char *words[MAX_WORDS]) {
    int32_t count = 0;
    int32_t inside = 0;
    for (char *at = text; *at != '\0'; ++at) {
        if (*at == ' ') {
            *at = '\0';
            inside = 0;
        } else if (inside == 0 && count < MAX_WORDS) {
            words[count] = at;
            ++count;
            inside = 1;
        }
    }
    return count;
}

static void stat_text(const session *run, const char *key, const char *value) {
    ge_line line;
    ge_line_clear(&line);
    ge_line_text(&line, key);
    ge_line_text(&line, value);
    ge_line_text(&line, "\n");
    (void)ge_semihost_write(run->stats, line.text, line.length);
}

static void stat_number(const session *run, const char *key, uint64_t value) {
    ge_line line;
    ge_line_clear(&line);
    ge_line_number(&line, value);
    stat_text(run, key, line.text);
}

static void stat_ticks(const session *run, const char *key, ge_ticks ticks) {
    ge_line line;
    ge_line_clear(&line);
    ge_line_number(&line, ticks.ticks);
    ge_line_text(&line, " ");
    ge_line_number(&line, ticks.interrupts);
    stat_text(run, key, line.text);
}

static void calibrate(const session *run) {
    stat_number(run, "protocol=", GE_PROTOCOL);
    stat_text(run, "bundle=", run->bundle->hash);
    stat_ticks(run, "empty=", ge_measure_empty_run());
    stat_ticks(run, "empty_layer=", ge_measure_empty_layer());
    stat_ticks(run, "loop=", ge_measure_loop(LOOP_COUNT, GE_TICKS_PERIOD_MAX));
    stat_ticks(run, "loop=", ge_measure_loop(LOOP_COUNT, LOOP_PERIOD));
}

static int32_t read_inputs(const session *run) {
    const ge_bundle *const bundle = run->bundle;
    for (uint32_t i = 0; i < bundle->input_count; ++i) {
        const ge_span span = bundle->inputs[i];
        if (ge_semihost_read(run->in, bundle->arena + span.offset, span.bytes) != 0) {
            return failure(GE_EXIT_USAGE, "cannot read the inputs", "");
        }
    }
    return 0;
}

static int32_t write_spans(const session *run, const ge_span *spans, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        if (ge_semihost_write(run->out, run->bundle->arena + spans[i].offset, spans[i].bytes) != 0) {
            return failure(GE_EXIT_USAGE, "cannot write the outputs: is the disk full?", "");
        }
    }
    return 0;
}

/* Checks everything that may have gone wrong in a call of the bundle. */
static int32_t check(const session *run, int32_t status, const char *where) {
    ge_line line;
    ge_line_clear(&line);
    if (status != 0) {
        ge_line_signed(&line, status);
        return failure(GE_EXIT_RUN, where, line.text);
    }
    const int32_t distance = ge_guard_broken(run->bundle);
    if (distance != 0) {
        ge_line_signed(&line, distance);
        return failure(GE_EXIT_OVERRUN, "the arena was overrun; distance of the nearest changed byte: ", line.text);
    }
    return 0;
}

static int32_t run_whole(const session *run) {
    const ge_bundle *const bundle = run->bundle;
    const ge_measured measured = ge_measure_run(bundle->run, bundle->arena);
    stat_ticks(run, "run=", measured.ticks);
    return check(run, measured.status, "the bundle returned ");
}

static int32_t run_by_layers(const session *run) {
    const ge_bundle *const bundle = run->bundle;
    for (uint32_t i = 0; i < bundle->layer_count; ++i) {
        const ge_measured measured = ge_measure_layer(bundle->run_layers, bundle->arena, (int32_t)i);
        stat_ticks(run, "layer=", measured.ticks);
        const uint32_t first = bundle->layer_output_first[i];
        const uint32_t count = bundle->layer_output_first[i + 1u] - first;
        int32_t code = check(run, measured.status, "a layer returned ");
        if (code == 0) {
            code = write_spans(run, bundle->layer_outputs + first, count);
        }
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

static int32_t measure_stack(const session *run) {
    memset(run->bundle->arena, 0, run->bundle->arena_size);
    uint32_t bytes;
    const int32_t whole = ge_measure_stack(run->bundle, &bytes);
    stat_number(run, "stack_bytes=", bytes);
    if (whole != 0) {
        return failure(GE_EXIT_STACK, "the stack ran out", "");
    }
    return check(run, 0, "");
}

static int32_t run_all(const session *run, int32_t (*run_one)(const session *run)) {
    for (uint32_t i = 0; i < run->samples; ++i) {
        memset(run->bundle->arena, (int)((0x5Au + 37u * i) & 0xFFu), run->bundle->arena_size);
        int32_t code = read_inputs(run);
        if (code == 0) {
            code = run_one(run);
        }
        if (code == 0) {
            code = write_spans(run, run->bundle->outputs, run->bundle->output_count);
        }
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

static int32_t open_files(session *run, const char *const *words) {
    run->in = ge_semihost_open_to_read(words[1]);
    run->out = ge_semihost_open_to_write(words[2]);
    run->stats = ge_semihost_open_to_write(words[3]);
    if (run->in < 0 || run->out < 0 || run->stats < 0) {
        return failure(GE_EXIT_USAGE, "cannot open the files of the command line", "");
    }
    const uint32_t length = (uint32_t)ge_semihost_length(run->in);
    if (length % run->sample_bytes != 0u) {
        return failure(GE_EXIT_USAGE, "the input file is not a whole number of samples", "");
    }
    run->samples = length / run->sample_bytes;
    return 0;
}

static uint32_t total_bytes(const ge_span *spans, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
        sum += spans[i].bytes;
    }
    return sum;
}

int32_t ge_transport(const ge_bundle *bundle) {
    static char text[128];
    const char *words[MAX_WORDS];
    session run = {bundle, -1, -1, -1, total_bytes(bundle->inputs, bundle->input_count), 0};
    if (ge_semihost_command_line(text, sizeof text) != 0) {
        return failure(GE_EXIT_USAGE, "no command line", "");
    }
    const int32_t count = split(text, words);
    if (count < 4) {
        return failure(GE_EXIT_USAGE, "usage: fw IN OUT STATS [layers]", "");
    }
    int32_t code = open_files(&run, words);
    if (code != 0) {
        return code;
    }

    ge_guard_arena(bundle);
    calibrate(&run);
    code = measure_stack(&run);
    if (code == 0) {
        code = run_all(&run, (count == 5 && strcmp(words[4], "layers") == 0) ? run_by_layers : run_whole);
    }

    stat_number(&run, "runs=", run.samples);
    (void)ge_semihost_close(run.in);
    (void)ge_semihost_close(run.out);
    (void)ge_semihost_close(run.stats);
    return code;
}

void ge_finish(int32_t code) {
    ge_semihost_exit(code);
}
