/* umbra_dragon_fli.h: the names of fli.h; included by umbra_dragon.h. */
#ifndef UMBRA_DRAGON_FLI_H
#define UMBRA_DRAGON_FLI_H

#include "umbra_dragon_channels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STREAM_CHANNEL_IS_MAIN_FOR_1_1_CONNECTION ((dragonChannelDescr_t *)0x1111)
#define STREAM_CHANNEL_IS_MAIN_FOR_BUFFERED_SEND ((dragonChannelDescr_t *)0x1112)

/* Streams of an adapter; of one with a main channel only there are two, for senders who bring a stream and for 1:1. */
typedef struct {
    umbra_stream _stream, _single;
    dragonMemoryPoolDescr_t _pool;
    uint64_t _cuid, _mode;
} dragonFLIDescr_t;

typedef struct {
    umbra_sender _sender;
    umbra_supplied _supplied;
} dragonFLISendHandleDescr_t;

typedef struct {
    umbra_receiver _receiver;
    umbra_supplied _supplied;
    dragonMemoryPoolDescr_t _pool;
} dragonFLIRecvHandleDescr_t;

typedef struct {
    int _placeholder;
} dragonFLIAttr_t;

typedef struct {
    dragonMemoryPoolDescr_t *dest_pool;
    bool allow_strm_term, turbo_mode, flush;
    dragonULInt debug;
} dragonFLISendAttr_t;

typedef struct {
    dragonMemoryPoolDescr_t *dest_pool;
} dragonFLIRecvAttr_t;

static inline dragonError_t dragon_fli_attr_init(dragonFLIAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    attr->_placeholder = 0;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_fli_send_attr_init(dragonFLISendAttr_t *attrs)
{
    if (attrs == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attrs, 0, sizeof *attrs);
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_fli_recv_attr_init(dragonFLIRecvAttr_t *attrs)
{
    if (attrs == NULL)
        return DRAGON_INVALID_ARGUMENT;
    attrs->dest_pool = NULL;
    return DRAGON_SUCCESS;
}

static inline dragonError_t umbra_dragon_fli(dragonFLIDescr_t *adapter, dragonChannelDescr_t *main_ch,
                                             dragonChannelDescr_t *mgr_ch, dragonMemoryPoolDescr_t *pool, dragonULInt count,
                                             dragonChannelDescr_t **streams, bool is_buffered, bool has_tasks)
{
    struct umbra_stream_options options;
    uint64_t messages = 0;
    int code;
    (void)streams;
    if (adapter == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(adapter, 0, sizeof *adapter);
    /* Streams are the adapter's own; channels say which mode is meant. */
    if ((main_ch == NULL && mgr_ch == NULL) || (mgr_ch == NULL && count != 0) || count > 16384 ||
        (is_buffered && (mgr_ch != NULL || main_ch == NULL)))
        return DRAGON_INVALID_ARGUMENT;
    if (pool == NULL)
        pool = main_ch != NULL ? &main_ch->_pool : &mgr_ch->_pool;
    if ((main_ch != NULL && (dragon_channel_message_count(main_ch, &messages) != DRAGON_SUCCESS || messages != 0)) ||
        (mgr_ch != NULL && (dragon_channel_message_count(mgr_ch, &messages) != DRAGON_SUCCESS || messages != 0)))
        return DRAGON_INVALID_ARGUMENT;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.uid = main_ch != NULL ? main_ch->_uid : mgr_ch->_uid;
    options.mode = is_buffered                           ? UMBRA_STREAM_BUFFERED
                   : mgr_ch == NULL                      ? UMBRA_STREAM_SENDER_SUPPLIED
                   : main_ch == NULL                     ? UMBRA_STREAM_RECEIVER_SUPPLIED
                                                         : UMBRA_STREAM_NOMINAL;
    options.streams = (uint32_t)count;
    if (options.mode == UMBRA_STREAM_BUFFERED) {
        if (dragon_channel_capacity(main_ch, &messages) != DRAGON_SUCCESS)
            return DRAGON_INVALID_ARGUMENT;
        options.messages = (uint32_t)messages;
    }
    options.tasks = has_tasks;
    code = umbra_stream_create(&options, &pool->_pool, 1, &adapter->_stream);
    if (code == 0 && options.mode == UMBRA_STREAM_SENDER_SUPPLIED) {
        options.mode = UMBRA_STREAM_SINGLE;
        options.streams = 0;
        code = umbra_stream_create(&options, &pool->_pool, 1, &adapter->_single);
        if (code != 0)
            umbra_stream_detach(adapter->_stream);
        options.mode = UMBRA_STREAM_SENDER_SUPPLIED;
    }
    adapter->_pool = *pool;
    adapter->_cuid = options.uid;
    adapter->_mode = options.mode;
    if (code != 0)
        memset(adapter, 0, sizeof *adapter);
    return umbra_dragon_code(code, DRAGON_OUT_OF_SPACE);
}

static inline dragonError_t dragon_fli_create(dragonFLIDescr_t *adapter, dragonChannelDescr_t *main_ch,
                                              dragonChannelDescr_t *mgr_ch, dragonMemoryPoolDescr_t *pool,
                                              const dragonULInt num_strm_chs, dragonChannelDescr_t **strm_channels,
                                              const bool use_buffered_protocol, dragonFLIAttr_t *attrs)
{
    (void)attrs;
    return umbra_dragon_fli(adapter, main_ch, mgr_ch, pool, num_strm_chs, strm_channels, use_buffered_protocol, false);
}

/* As that, with a count of tasks, for which the semaphore only stands. */
static inline dragonError_t dragon_fli_task_create(dragonFLIDescr_t *adapter, dragonChannelDescr_t *main_ch,
                                                   dragonChannelDescr_t *mgr_ch, dragonChannelDescr_t *task_sem,
                                                   dragonMemoryPoolDescr_t *pool, const dragonULInt num_strm_chs,
                                                   dragonChannelDescr_t **strm_channels, const bool use_buffered_protocol,
                                                   dragonFLIAttr_t *attrs)
{
    (void)attrs;
    if (task_sem == NULL || !task_sem->_is_semaphore)
        return DRAGON_INVALID_ARGUMENT;
    return umbra_dragon_fli(adapter, main_ch, mgr_ch, pool, num_strm_chs, strm_channels, use_buffered_protocol, true);
}

static inline dragonError_t dragon_fli_detach(dragonFLIDescr_t *adapter)
{
    int code = adapter == NULL ? -UMBRA_EINVAL : umbra_stream_detach(adapter->_stream);
    if (code == 0) {
        if (adapter->_single != 0)
            umbra_stream_detach(adapter->_single);
        memset(adapter, 0, sizeof *adapter);
    }
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_destroy(dragonFLIDescr_t *adapter)
{
    int code = adapter == NULL ? -UMBRA_EINVAL : umbra_stream_destroy(adapter->_stream);
    if (code != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if (adapter->_single != 0)
        umbra_stream_destroy(adapter->_single);
    return dragon_fli_detach(adapter);
}

static inline dragonError_t dragon_fli_serialize(const dragonFLIDescr_t *adapter, dragonFLISerial_t *serial)
{
    uint8_t *behind, bytes[UMBRA_DRAGON_PART], single[UMBRA_DRAGON_PART];
    uint64_t numbers[2];
    size_t length = 0, single_length = 0;
    dragonError_t made;
    int code;
    if (adapter == NULL || serial == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(serial, 0, sizeof *serial);
    code = umbra_stream_reference(adapter->_stream, bytes, sizeof bytes, &length);
    if (code == 0 && adapter->_single != 0)
        code = umbra_stream_reference(adapter->_single, single, sizeof single, &single_length);
    if (code != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if ((made = umbra_dragon_pool_bytes(serial, &adapter->_pool, &behind)) != DRAGON_SUCCESS)
        return made;
    numbers[0] = adapter->_cuid;
    numbers[1] = adapter->_mode;
    behind = umbra_dragon_put(umbra_dragon_put(behind, numbers, sizeof numbers), bytes, length);
    umbra_dragon_seal(serial, umbra_dragon_put(behind, single, single_length));
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_fli_serial_free(dragonFLISerial_t *serial)
{
    return umbra_dragon_serial_free(serial);
}

/* Without a pool it attaches the adapter's, by a handle that all who attach so share. It stays until the end of the process:
 * received memory is of it. */
static inline dragonError_t dragon_fli_attach(const dragonFLISerial_t *serial, const dragonMemoryPoolDescr_t *pool,
                                              dragonFLIDescr_t *adapter)
{
    dragonMemoryPoolDescr_t own;
    dragonSerial_t body = umbra_dragon_body(serial);
    const uint8_t *numbers, *bytes, *single;
    uint64_t told[2];
    size_t at = 0, length = 0, single_length = 0, have = 0;
    dragonError_t code;
    int attached;
    if (adapter == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(adapter, 0, sizeof *adapter);
    if ((code = umbra_dragon_pool_of(&own, &body, &at, true)) != DRAGON_SUCCESS)
        return code;
    numbers = umbra_dragon_get(&body, &at, &have);
    bytes = numbers == NULL ? NULL : umbra_dragon_get(&body, &at, &length);
    single = bytes == NULL ? NULL : umbra_dragon_get(&body, &at, &single_length);
    if (single == NULL || have != sizeof told || at != body.len) {
        dragon_memory_pool_detach(&own);
        return DRAGON_INVALID_ARGUMENT;
    }
    memcpy(told, numbers, sizeof told);
    adapter->_cuid = told[0];
    adapter->_mode = told[1];
    if (pool != NULL) {
        dragon_memory_pool_detach(&own);
        own = *pool;
    }
    adapter->_pool = own;
    attached = umbra_stream_attach_reference(bytes, length, &own._pool, 1, &adapter->_stream);
    if (attached == 0 && single_length != 0 &&
        (attached = umbra_stream_attach_reference(single, single_length, &own._pool, 1, &adapter->_single)) != 0)
        umbra_stream_detach(adapter->_stream);
    if (attached != 0) {
        if (pool == NULL)
            dragon_memory_pool_detach(&own);
        memset(adapter, 0, sizeof *adapter);
    }
    return umbra_dragon_code(attached, DRAGON_OUT_OF_SPACE);
}

static inline dragonError_t dragon_fli_is_buffered(const dragonFLIDescr_t *adapter, bool *is_buffered)
{
    if (adapter == NULL || is_buffered == NULL || adapter->_stream == 0)
        return DRAGON_INVALID_ARGUMENT;
    *is_buffered = adapter->_mode == UMBRA_STREAM_BUFFERED;
    return DRAGON_SUCCESS;
}

static inline dragonError_t umbra_dragon_counts(const dragonFLIDescr_t *adapter, struct umbra_stream_statistics *counts)
{
    counts->size = sizeof *counts;
    return adapter == NULL ? DRAGON_INVALID_ARGUMENT
                           : umbra_dragon_code(umbra_stream_statistics(adapter->_stream, counts), DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_get_available_streams(dragonFLIDescr_t *adapter, uint64_t *num_streams,
                                                             const timespec_t *timeout)
{
    struct umbra_stream_statistics counts;
    dragonError_t code = umbra_dragon_counts(adapter, &counts);
    (void)timeout;
    if (code != DRAGON_SUCCESS)
        return code;
    if (num_streams == NULL || adapter->_mode == UMBRA_STREAM_BUFFERED || adapter->_mode == UMBRA_STREAM_SENDER_SUPPLIED)
        return DRAGON_INVALID_ARGUMENT;
    *num_streams = adapter->_mode == UMBRA_STREAM_RECEIVER_SUPPLIED ? counts.offered : counts.idle;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_fli_num_msgs(const dragonFLIDescr_t *adapter, size_t *num_msgs, const timespec_t *timeout)
{
    struct umbra_stream_statistics counts;
    dragonError_t code = num_msgs == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_counts(adapter, &counts);
    (void)timeout;
    if (code == DRAGON_SUCCESS)
        *num_msgs = counts.waiting;
    return code;
}

static inline dragonError_t dragon_fli_poll(const dragonFLIDescr_t *adapter, const timespec_t *timeout)
{
    size_t waiting = 0;
    dragonError_t code = dragon_fli_num_msgs(adapter, &waiting, timeout);
    if (code == DRAGON_SUCCESS && adapter->_mode == UMBRA_STREAM_RECEIVER_SUPPLIED)
        return DRAGON_INVALID_ARGUMENT;
    return code != DRAGON_SUCCESS || waiting != 0 ? code : DRAGON_EMPTY;
}

/* Whether no further conversation could begin now. */
static inline dragonError_t dragon_fli_full(const dragonFLIDescr_t *adapter)
{
    struct umbra_stream_statistics counts;
    dragonError_t code = umbra_dragon_counts(adapter, &counts);
    return code != DRAGON_SUCCESS || counts.idle + counts.offered + counts.room == 0 ? code : DRAGON_NOT_FULL;
}

static inline dragonError_t dragon_fli_main_channel_cuid(const dragonFLIDescr_t *adapter, dragonC_UID_t *cuid)
{
    if (adapter == NULL || cuid == NULL || adapter->_stream == 0 || adapter->_mode == UMBRA_STREAM_RECEIVER_SUPPLIED)
        return DRAGON_INVALID_ARGUMENT;
    *cuid = adapter->_cuid;
    return DRAGON_SUCCESS;
}

static inline dragonError_t umbra_dragon_task(int code)
{
    return code == -UMBRA_EKIND ? DRAGON_SEMAPHORE_NOT_FOUND : umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_new_task(const dragonFLIDescr_t *adapter, const timespec_t *timeout)
{
    (void)timeout;
    return adapter == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_task(umbra_stream_new_task(adapter->_stream));
}

static inline dragonError_t dragon_fli_task_done(const dragonFLIDescr_t *adapter, const timespec_t *timeout)
{
    (void)timeout;
    return adapter == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_task(umbra_stream_task_done(adapter->_stream));
}

static inline dragonError_t dragon_fli_join(const dragonFLIDescr_t *adapter, const timespec_t *timeout)
{
    return adapter == NULL ? DRAGON_INVALID_ARGUMENT
                           : umbra_dragon_task(umbra_stream_join_tasks(adapter->_stream, UMBRA_WAIT_ADAPTIVE,
                                                                       umbra_dragon_ms(timeout)));
}

/* Which streams a conversation begins in, and the one that is brought along. */
static inline dragonError_t umbra_dragon_begin(const dragonFLIDescr_t *adapter, dragonChannelDescr_t *strm_ch, bool sends,
                                               umbra_stream *stream, umbra_supplied *supplied)
{
    bool is_single = strm_ch == STREAM_CHANNEL_IS_MAIN_FOR_1_1_CONNECTION;
    bool is_buffered = strm_ch == STREAM_CHANNEL_IS_MAIN_FOR_BUFFERED_SEND;
    bool brings = strm_ch != NULL && !is_single && !is_buffered;
    uint64_t messages = 0;
    int code;
    if (adapter == NULL || adapter->_stream == 0)
        return DRAGON_INVALID_ARGUMENT;
    *supplied = 0;
    *stream = is_single ? adapter->_single : adapter->_stream;
    switch (adapter->_mode) {
    case UMBRA_STREAM_BUFFERED:
        return strm_ch == NULL || (sends && is_buffered) ? DRAGON_SUCCESS : DRAGON_INVALID_ARGUMENT;
    case UMBRA_STREAM_NOMINAL:
        return strm_ch == NULL || (sends && is_buffered) ? DRAGON_SUCCESS : DRAGON_INVALID_ARGUMENT;
    case UMBRA_STREAM_SENDER_SUPPLIED:
        if (is_single || (sends && is_buffered) || (!sends && strm_ch == NULL))
            return DRAGON_SUCCESS;
        if (!sends || !brings)
            return DRAGON_INVALID_ARGUMENT;
        break;
    default:
        if (sends && strm_ch == NULL)
            return DRAGON_SUCCESS;
        if (sends || !brings)
            return DRAGON_INVALID_ARGUMENT;
    }
    if (dragon_channel_message_count(strm_ch, &messages) != DRAGON_SUCCESS)
        return DRAGON_INVALID_ARGUMENT;
    code = umbra_stream_supply(*stream, supplied);
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_open_send_handle(const dragonFLIDescr_t *adapter, dragonFLISendHandleDescr_t *handle,
                                                        dragonChannelDescr_t *strm_ch, dragonFLISendAttr_t *attrs,
                                                        const timespec_t *timeout)
{
    struct umbra_sender_options options;
    umbra_stream stream;
    dragonError_t code;
    int opened;
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(handle, 0, sizeof *handle);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    if ((code = umbra_dragon_begin(adapter, strm_ch, true, &stream, &options.supplied)) != DRAGON_SUCCESS)
        return code;
    options.buffered = strm_ch == STREAM_CHANNEL_IS_MAIN_FOR_BUFFERED_SEND;
    if (attrs != NULL) {
        options.may_be_cut = attrs->allow_strm_term;
        options.pool = attrs->dest_pool == NULL ? 0 : attrs->dest_pool->_pool;
    }
    opened = umbra_sender_open(stream, &options, umbra_dragon_ms(timeout), &handle->_sender);
    handle->_supplied = options.supplied;
    if (opened != 0 && options.supplied != 0)
        umbra_supplied_release(options.supplied);
    if (opened != 0)
        memset(handle, 0, sizeof *handle);
    return umbra_dragon_code(opened, DRAGON_CHANNEL_FULL);
}

static inline dragonError_t dragon_fli_close_send_handle(dragonFLISendHandleDescr_t *handle, const timespec_t *timeout)
{
    int code = handle == NULL ? -UMBRA_EINVAL : umbra_sender_close(handle->_sender, umbra_dragon_ms(timeout));
    if (handle != NULL && code != -UMBRA_EINUSE) {
        if (handle->_supplied != 0)
            umbra_supplied_release(handle->_supplied);
        memset(handle, 0, sizeof *handle);
    }
    return umbra_dragon_code(code, DRAGON_CHANNEL_FULL);
}

static inline dragonError_t dragon_fli_open_recv_handle(const dragonFLIDescr_t *adapter, dragonFLIRecvHandleDescr_t *handle,
                                                        dragonChannelDescr_t *strm_ch, dragonFLIRecvAttr_t *attrs,
                                                        const timespec_t *timeout)
{
    struct umbra_receiver_options options;
    umbra_stream stream;
    dragonError_t code;
    int opened;
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(handle, 0, sizeof *handle);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    if ((code = umbra_dragon_begin(adapter, strm_ch, false, &stream, &options.supplied)) != DRAGON_SUCCESS)
        return code;
    options.pool = attrs == NULL || attrs->dest_pool == NULL ? 0 : attrs->dest_pool->_pool;
    opened = umbra_receiver_open(stream, &options, umbra_dragon_ms(timeout), &handle->_receiver);
    handle->_supplied = options.supplied;
    handle->_pool = adapter->_pool;
    if (opened != 0 && options.supplied != 0)
        umbra_supplied_release(options.supplied);
    if (opened != 0)
        memset(handle, 0, sizeof *handle);
    return umbra_dragon_code(opened, DRAGON_CHANNEL_FULL);
}

static inline dragonError_t dragon_fli_close_recv_handle(dragonFLIRecvHandleDescr_t *handle, const timespec_t *timeout)
{
    int code = handle == NULL ? -UMBRA_EINVAL : umbra_receiver_close(handle->_receiver, umbra_dragon_ms(timeout));
    if (handle != NULL && code != -UMBRA_EINUSE) {
        if (handle->_supplied != 0)
            umbra_supplied_release(handle->_supplied);
        memset(handle, 0, sizeof *handle);
    }
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_stream_received(dragonFLIRecvHandleDescr_t *handle, bool *stream_received)
{
    int ended = 0, code;
    if (handle == NULL || stream_received == NULL)
        return DRAGON_INVALID_ARGUMENT;
    code = umbra_receiver_has_ended(handle->_receiver, &ended);
    *stream_received = code == 0 && ended != 0;
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

/* Of a message that was begun the rest is kept, and goes before what is sent next or with the close: a program that sent it
 * again would send it twice. */
static inline dragonError_t umbra_dragon_sent(int code)
{
    return code == -UMBRA_EPARTLY ? DRAGON_SUCCESS : umbra_dragon_code(code, DRAGON_CHANNEL_FULL);
}

static inline dragonError_t dragon_fli_send_bytes(dragonFLISendHandleDescr_t *handle, size_t num_bytes, const uint8_t *bytes,
                                                  uint64_t arg, const bool buffer, const timespec_t *timeout)
{
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    return umbra_dragon_sent(buffer ? umbra_sender_keep(handle->_sender, bytes, num_bytes, arg)
                                    : umbra_sender_send(handle->_sender, bytes, num_bytes, arg, umbra_dragon_ms(timeout)));
}

/* Hands memory over, lends it, or sends a copy of its bytes. A view of a part is always copied; if it is handed over, the whole
 * is freed then. */
static inline dragonError_t dragon_fli_send_mem(dragonFLISendHandleDescr_t *handle, dragonMemoryDescr_t *mem, uint64_t arg,
                                                bool transfer_ownership, bool no_copy_read_only, const timespec_t *timeout)
{
    void *address;
    dragonError_t code;
    bool is_part;
    /* What was only lent is its owner's to free. */
    if (handle == NULL || mem == NULL || (transfer_ownership && (no_copy_read_only || mem->_is_lent)))
        return DRAGON_INVALID_ARGUMENT;
    if ((code = dragon_memory_get_pointer(mem, &address)) != DRAGON_SUCCESS)
        return code;
    is_part = mem->_offset != 0 || mem->_length != mem->_whole;
    if (is_part || (!transfer_ownership && !no_copy_read_only)) {
        code =
            umbra_dragon_sent(umbra_sender_send(handle->_sender, address, mem->_length, arg, umbra_dragon_ms(timeout)));
        return code == DRAGON_SUCCESS && transfer_ownership ? dragon_memory_free(mem) : code;
    }
    return umbra_dragon_code(umbra_sender_send_memory(handle->_sender, mem->_pool._pool, mem->_id, no_copy_read_only, arg,
                                                      umbra_dragon_ms(timeout)),
                             DRAGON_CHANNEL_FULL);
}

/* The next message, which comes again as long as there is no memory for it. */
static inline dragonError_t umbra_dragon_next(const dragonFLIRecvHandleDescr_t *handle, size_t *length, uint8_t **bytes,
                                              uint64_t *arg, const timespec_t *timeout)
{
    size_t room = 64, needed = 0;
    uint64_t told = 0, patience = umbra_dragon_ms(timeout), began = umbra_dragon_clock();
    for (;;) {
        uint8_t *copy = (uint8_t *)malloc(room);
        int code;
        if (copy == NULL)
            return DRAGON_INTERNAL_MALLOC_FAIL;
        /* A copy of the handle may take what was too long for the first room: all rounds have one deadline. */
        code = umbra_receiver_receive_whole(handle->_receiver, copy, room, umbra_dragon_left(patience, began), &needed, &told);
        if (code == 0) {
            *length = needed;
            *bytes = copy;
            if (arg != NULL)
                *arg = told;
            return DRAGON_SUCCESS;
        }
        free(copy);
        if (code != -UMBRA_ESIZE)
            return umbra_dragon_code(code, DRAGON_FAILURE);
        room = needed;
    }
}

/* Up to requested_size bytes, fewer only at the end, or at the deadline if there is no memory to keep them; 0: the next message.
 * The caller frees them. DRAGON_INTERNAL_MALLOC_FAIL: nothing is lost, and the next message is the same again, in whatever way it
 * is received. So it is if the library lacks memory of its own, which is DRAGON_MEMORY_ERRNO, as whatever else the system refuses
 * it. */
static inline dragonError_t dragon_fli_recv_bytes(dragonFLIRecvHandleDescr_t *handle, size_t requested_size,
                                                  size_t *received_size, uint8_t **bytes, uint64_t *arg,
                                                  const timespec_t *timeout)
{
    size_t length = 0;
    uint64_t told = 0;
    uint8_t *copy;
    int code;
    if (handle == NULL || received_size == NULL || bytes == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *received_size = 0;
    *bytes = NULL;
    if (requested_size == 0)
        return umbra_dragon_next(handle, received_size, bytes, arg, timeout);
    if ((copy = (uint8_t *)malloc(requested_size)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    code = umbra_receiver_receive(handle->_receiver, copy, requested_size, 1, umbra_dragon_ms(timeout), &length, &told);
    if (code != 0) {
        free(copy);
        return umbra_dragon_code(code, DRAGON_FAILURE);
    }
    *received_size = length;
    *bytes = copy;
    if (arg != NULL)
        *arg = told;
    return DRAGON_SUCCESS;
}

/* Into a buffer of requested_size bytes, and never beyond it. */
static inline dragonError_t dragon_fli_recv_bytes_into(dragonFLIRecvHandleDescr_t *handle, size_t requested_size,
                                                       size_t *received_size, uint8_t *bytes, uint64_t *arg,
                                                       const timespec_t *timeout)
{
    uint64_t told = 0;
    int code;
    if (handle == NULL || received_size == NULL || bytes == NULL || requested_size == 0)
        return DRAGON_INVALID_ARGUMENT;
    *received_size = 0;
    code = umbra_receiver_receive(handle->_receiver, bytes, requested_size, 1, umbra_dragon_ms(timeout), received_size, &told);
    if (code == 0 && arg != NULL)
        *arg = told;
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_recv_mem(dragonFLIRecvHandleDescr_t *handle, dragonMemoryDescr_t *mem, uint64_t *arg,
                                                const timespec_t *timeout)
{
    struct umbra_received received;
    uint64_t whole = 0;
    void *address;
    int code;
    if (handle == NULL || mem == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(mem, 0, sizeof *mem);
    if ((code = umbra_receiver_receive_memory(handle->_receiver, umbra_dragon_ms(timeout), &received)) != 0 ||
        (code = umbra_allocation_look(received.pool, received.allocation, &address, &whole)) != 0)
        return umbra_dragon_code(code, DRAGON_DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE);
    mem->_pool = handle->_pool;
    mem->_pool._pool = received.pool;
    mem->_id = received.allocation;
    mem->_offset = (uint64_t)((uint8_t *)received.address - (uint8_t *)address);
    mem->_length = received.length;
    mem->_whole = whole;
    mem->_is_lent = received.lent != 0;
    if (arg != NULL)
        *arg = received.arg;
    return DRAGON_SUCCESS;
}

/* What is written to the descriptor is sent; arg other than 0 is not offered. The caller closes it. */
static inline dragonError_t dragon_fli_create_writable_fd(dragonFLISendHandleDescr_t *handle, int *fd, const bool buffer,
                                                          size_t chunk_size, const uint64_t arg, const timespec_t *timeout)
{
    (void)buffer;
    (void)timeout;
    if (handle == NULL || fd == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (arg != 0)
        return DRAGON_NOT_IMPLEMENTED;
    return umbra_dragon_code(umbra_sender_open_file(handle->_sender, chunk_size, fd), DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_finalize_writable_fd(dragonFLISendHandleDescr_t *handle)
{
    int code = handle == NULL ? -UMBRA_EINVAL : umbra_sender_finish_file(handle->_sender, UMBRA_FOREVER);
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_create_readable_fd(dragonFLIRecvHandleDescr_t *handle, int *fd, const timespec_t *timeout)
{
    (void)timeout;
    if (handle == NULL || fd == NULL)
        return DRAGON_INVALID_ARGUMENT;
    return umbra_dragon_code(umbra_receiver_open_file(handle->_receiver, 0, fd), DRAGON_FAILURE);
}

static inline dragonError_t dragon_fli_finalize_readable_fd(dragonFLIRecvHandleDescr_t *handle)
{
    int code = handle == NULL ? -UMBRA_EINVAL : umbra_receiver_finish_file(handle->_receiver, UMBRA_FOREVER);
    return umbra_dragon_code(code, DRAGON_FAILURE);
}

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_DRAGON_FLI_H */
