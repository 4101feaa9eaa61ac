/* For programs that were written for Dragon: channels.h of its core, over Umbra. */
#include "../umbra_dragon.h"
