/* umbra_dragon_sets.h: the names of channelsets.h; included by umbra_dragon.h. */
#ifndef UMBRA_DRAGON_SETS_H
#define UMBRA_DRAGON_SETS_H

#include "umbra_dragon_channels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int num_allowed_spin_waiters;
    dragonLockKind_t lock_type;
    dragonSyncType_t sync_type;
} dragonChannelSetAttrs_t;

typedef struct {
    umbra_channel_set _set;
    dragonChannelDescr_t *_channels;
    int _count;
    short _event;
} dragonChannelSetDescr_t;

typedef struct {
    int channel_idx;
    short revent;
} dragonChannelSetEventNotification_t;

static inline dragonError_t dragon_channelset_attr_init(dragonChannelSetAttrs_t *attrs)
{
    if (attrs == NULL)
        return DRAGON_INVALID_ARGUMENT;
    attrs->num_allowed_spin_waiters = 5;
    attrs->lock_type = DRAGON_LOCK_FIFO_LITE;
    attrs->sync_type = DRAGON_NO_SYNC;
    return DRAGON_SUCCESS;
}

/* Waits for another event from now on. */
static inline dragonError_t dragon_channelset_set_event_mask(dragonChannelSetDescr_t *set, short event)
{
    umbra_channel_set made = 0;
    umbra_channel *handles;
    int i, code;
    if (set == NULL || set->_channels == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if ((handles = (umbra_channel *)malloc(sizeof *handles * (size_t)set->_count)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    for (i = 0; i < set->_count; i++)
        handles[i] = set->_channels[i]._channel;
    code = umbra_channel_set_create(handles, (size_t)set->_count, event, &made);
    free(handles);
    if (code != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if (set->_set != 0)
        umbra_channel_set_release(set->_set);
    set->_set = made;
    set->_event = event;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channelset_create(dragonChannelDescr_t *list[], int count, const short event,
                                                     dragonMemoryPoolDescr_t *pool, dragonChannelSetAttrs_t *attrs,
                                                     dragonChannelSetDescr_t *set)
{
    dragonError_t code;
    int i;
    (void)pool;
    (void)attrs;
    if (list == NULL || set == NULL || count <= 0)
        return DRAGON_INVALID_ARGUMENT;
    memset(set, 0, sizeof *set);
    if ((set->_channels = (dragonChannelDescr_t *)calloc((size_t)count, sizeof **list)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    for (i = 0; i < count; i++)
        if (list[i] != NULL)
            set->_channels[i] = *list[i];
    set->_count = count;
    if ((code = dragon_channelset_set_event_mask(set, event)) != DRAGON_SUCCESS) {
        free(set->_channels);
        memset(set, 0, sizeof *set);
    }
    return code;
}

static inline dragonError_t dragon_channelset_destroy(dragonChannelSetDescr_t *set)
{
    int code = set == NULL ? -UMBRA_EINVAL : umbra_channel_set_release(set->_set);
    if (code == 0) {
        free(set->_channels);
        memset(set, 0, sizeof *set);
    }
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

/* Copies of the descriptors; the caller frees the list. */
static inline dragonError_t dragon_channelset_get_channels(dragonChannelSetDescr_t *set, dragonChannelDescr_t **list, int *count)
{
    if (set == NULL || list == NULL || count == NULL || set->_channels == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if ((*list = (dragonChannelDescr_t *)malloc(sizeof **list * (size_t)set->_count)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    memcpy(*list, set->_channels, sizeof **list * (size_t)set->_count);
    *count = set->_count;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channelset_get_event_mask(dragonChannelSetDescr_t *set, short *event)
{
    if (set == NULL || event == NULL || set->_channels == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *event = set->_event;
    return DRAGON_SUCCESS;
}

/* Which channel is ready; the caller frees the event. release_fun is called once before waiting. */
static inline dragonError_t dragon_channelset_poll(dragonChannelSetDescr_t *set, dragonWaitMode_t wait_mode, timespec_t *timeout,
                                                   dragonReleaseFun release_fun, void *release_arg,
                                                   dragonChannelSetEventNotification_t **event)
{
    size_t index = 0;
    int what = 0, code;
    if (set == NULL || event == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *event = NULL;
    if (release_fun != NULL)
        release_fun(release_arg);
    code = umbra_channel_set_poll(set->_set, umbra_dragon_mode(wait_mode), umbra_dragon_ms(timeout), &index, &what);
    if (code != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if ((*event = (dragonChannelSetEventNotification_t *)malloc(sizeof **event)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    (*event)->channel_idx = (int)index;
    (*event)->revent = (short)what;
    return DRAGON_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_DRAGON_SETS_H */
