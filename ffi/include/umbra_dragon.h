/* umbra_dragon.h: memory, channels, sets of channels and streams under the names that Dragon's core has for them.
 *
 * For programs that were written for managed_memory.h, channels.h, channelsets.h and fli.h of Dragon: they are compiled with this
 * header instead and linked with Umbra. Everything is a thin static function over umbra.h; made from the published names and the
 * documented meaning. docs/c-interface.md says which names are not offered, and why.
 *
 * What differs: codes have the same names and pinned values of their own. Serialized bytes are Umbra's. A wait is rounded up to
 * milliseconds. dragon_fli_recv_bytes_into takes the size of the buffer and refuses 0. Members whose names begin with an underscore
 * are not the program's. Processes attach to objects; descriptors that are copied or cloned are the same handle: whoever releases one
 * has released all of them. The clock of POSIX is needed: _POSIX_C_SOURCE is 199309L or later, or the dialect is GNU's.
 */
#ifndef UMBRA_DRAGON_H
#define UMBRA_DRAGON_H

#include "umbra_dragon_channels.h"
#include "umbra_dragon_fli.h"
#include "umbra_dragon_memory.h"
#include "umbra_dragon_sets.h"

#endif /* UMBRA_DRAGON_H */
