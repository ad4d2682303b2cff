/* The mask of an attention kernel: a constant, the same for all sequences. */
#define GE_MASK int16_t
#define GE_MASK_OF(mask, sequence) (mask)
