/* The mask of an attention kernel: a tensor, one row for each sequence. */
#define GE_MASK ge_rows
#define GE_MASK_OF(mask, sequence) ((const int16_t *)ge_row(mask, sequence))
