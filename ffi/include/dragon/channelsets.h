/* For programs that were written for Dragon: channelsets.h of its core, over Umbra. */
#include "../umbra_dragon.h"
