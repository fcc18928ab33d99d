/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Tables in which the entry of a number is within PROBES slots of the slot given by the number's hash. */
#ifndef FXTREC_HASH_H
#define FXTREC_HASH_H

#define PROBES 8

/* A multiplier whose products are well mixed in their upper bits: about 2^32 divided by the golden ratio. */
#define MIX 0x61c88647

#endif
