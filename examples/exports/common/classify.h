/* What every program here does with the network. */
#ifndef CLASSIFY_H
#define CLASSIFY_H

/* The digit in image.h, 0 to 9; -1 if the network reports an error. */
int classify(void);

/* Whether this compiler, its flags and this core compute the bits of the reference: 1 or 0. */
int same_bits(void);

#endif
