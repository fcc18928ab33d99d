/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Tables in which what belongs to a number is within PROBES of the place that the number's hash says. */
#ifndef FXTREC_HASH_H
#define FXTREC_HASH_H

#define PROBES 8

/* A multiplier whose products are well mixed in their upper bits: 2^32 divided by the golden ratio, or nearly. */
#define MIX 0x61c88647

#endif
