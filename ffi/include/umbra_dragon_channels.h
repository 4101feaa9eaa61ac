/* umbra_dragon_channels.h: the names of channels.h; included by umbra_dragon.h. */
#ifndef UMBRA_DRAGON_CHANNELS_H
#define UMBRA_DRAGON_CHANNELS_H

#include "umbra_dragon_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DRAGON_CHANNEL_MINIMUM_BYTES_PER_BLOCK 256
#define DRAGON_CHANNEL_DEFAULT_CAPACITY 100
/* More senders than wait for room at once. */
#define UMBRA_DRAGON_WAITING 1024

typedef enum { DRAGON_CHANNEL_EXCLUSIVE = 0, DRAGON_CHANNEL_NONEXCLUSIVE } dragonChannelOFlag_t;
typedef enum {
    DRAGON_CHANNEL_FC_NONE = 0,
    DRAGON_CHANNEL_FC_RESOURCES,
    DRAGON_CHANNEL_FC_MEMORY,
    DRAGON_CHANNEL_FC_MSGS
} dragonChannelFC_t;
typedef enum { DRAGON_CHANNEL_FLAGS_NONE = 0, DRAGON_CHANNEL_FLAGS_MASQUERADE_AS_REMOTE = 1 } dragonChannelFlags_t;
typedef enum {
    DRAGON_CHANNEL_POLLNOTHING = 0,
    DRAGON_CHANNEL_POLLIN = 1,
    DRAGON_CHANNEL_POLLOUT = 2,
    DRAGON_CHANNEL_POLLINOUT = 3,
    DRAGON_CHANNEL_POLLEMPTY = 4,
    DRAGON_CHANNEL_POLLFULL = 5,
    DRAGON_CHANNEL_POLLSIZE = 6,
    DRAGON_CHANNEL_POLLRESET = 7,
    DRAGON_CHANNEL_POLLCAPACITY = 8,
    DRAGON_CHANNEL_POLLBARRIER_WAIT = 9,
    DRAGON_CHANNEL_POLLBARRIER_ABORT = 10,
    DRAGON_CHANNEL_POLLBARRIER_RELEASE = 11,
    DRAGON_CHANNEL_POLLBARRIER_ISBROKEN = 12,
    DRAGON_CHANNEL_POLLBARRIER_WAITERS = 13,
    DRAGON_CHANNEL_POLLBLOCKED_RECEIVERS = 14,
    DRAGON_SEMAPHORE_P = 15,
    DRAGON_SEMAPHORE_V = 16,
    DRAGON_SEMAPHORE_Z = 17,
    DRAGON_SEMAPHORE_PEEK = 18,
    DRAGON_CHANNEL_CLEANUP = 19
} dragonChannelEvent_t;
typedef enum {
    DRAGON_CHANNEL_SEND_RETURN_IMMEDIATELY,
    DRAGON_CHANNEL_SEND_RETURN_WHEN_BUFFERED,
    DRAGON_CHANNEL_SEND_RETURN_WHEN_DEPOSITED,
    DRAGON_CHANNEL_SEND_RETURN_WHEN_RECEIVED,
    DRAGON_CHANNEL_SEND_RETURN_WHEN_NONE
} dragonChannelSendReturnWhen_t;

/* Destinations of a send that are none. */
#define DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP ((dragonMemoryDescr_t *)1)
#define DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY ((dragonMemoryDescr_t *)2)

typedef struct {
    dragonC_UID_t c_uid;
    size_t bytes_per_msg_block, capacity;
    dragonLockKind_t lock_type;
    dragonChannelOFlag_t oflag;
    dragonChannelFC_t fc_type;
    dragonULInt flags;
    dragonMemoryPoolDescr_t *buffer_pool;
    size_t max_spinners, max_event_bcasts;
    int blocked_receivers;
    size_t num_msgs, num_avail_blocks;
    bool broken_barrier;
    int barrier_count;
    bool semaphore, bounded;
    dragonULInt initial_sem_value;
} dragonChannelAttr_t;

typedef struct {
    umbra_channel _channel;
    dragonMemoryPoolDescr_t _pool;
    uint64_t _uid, _block, _capacity, _is_semaphore;
} dragonChannelDescr_t;

typedef struct {
    dragonUUID sendhid;
    dragonChannelSendReturnWhen_t return_mode;
    timespec_t default_timeout;
    dragonWaitMode_t wait_mode;
} dragonChannelSendAttr_t;

typedef struct {
    timespec_t default_timeout;
    dragonWaitMode_t wait_mode;
} dragonChannelRecvAttr_t;

typedef struct {
    dragonChannelDescr_t _ch;
    dragonChannelSendAttr_t _attrs;
    int _opened;
} dragonChannelSendh_t;

typedef struct {
    dragonChannelDescr_t _ch;
    dragonChannelRecvAttr_t _attrs;
    int _opened;
} dragonChannelRecvh_t;

typedef struct {
    dragonULInt hints, clientid;
    dragonUUID sendhid;
    bool send_transfer_ownership, no_copy_read_only;
} dragonMessageAttr_t;

typedef struct {
    dragonMessageAttr_t _attr;
    dragonMemoryDescr_t _mem;
    int _has_mem; /* 2: it came with a message and is only lent: no place for another one */
} dragonMessage_t;

/* What goes in front of each message; of one that is memory it is all. */
struct umbra_dragon_envelope {
    uint64_t clientid;
    dragonUUID sendhid;
    uint64_t is_memory, is_lent, allocation, offset, length;
};

static inline dragonError_t dragon_channel_attr_init(dragonChannelAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attr, 0, sizeof *attr);
    attr->bytes_per_msg_block = 1024;
    attr->capacity = DRAGON_CHANNEL_DEFAULT_CAPACITY;
    attr->lock_type = DRAGON_LOCK_FIFO_LITE;
    attr->max_spinners = 32;
    attr->max_event_bcasts = 8;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_attr_destroy(dragonChannelAttr_t *attr)
{
    return attr == NULL ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_create(dragonChannelDescr_t *ch, const dragonC_UID_t c_uid,
                                                  dragonMemoryPoolDescr_t *pool, const dragonChannelAttr_t *attr)
{
    struct umbra_channel_options options;
    dragonChannelAttr_t usual;
    if (ch == NULL || pool == NULL || pool->_pool == 0)
        return DRAGON_INVALID_ARGUMENT;
    memset(ch, 0, sizeof *ch);
    dragon_channel_attr_init(&usual);
    if (attr == NULL)
        attr = &usual;
    if (attr->bytes_per_msg_block < DRAGON_CHANNEL_MINIMUM_BYTES_PER_BLOCK)
        return DRAGON_CHANNEL_BLOCKSIZE_BELOW_REQUIRED_MINIMUM;
    if (attr->bytes_per_msg_block > UINT32_MAX / 2)
        return DRAGON_CHANNEL_BLOCKSIZE_OVER_ALLOWED_MAXIMUM;
    if (attr->capacity == 0)
        return DRAGON_CHANNEL_CAPACITY_BELOW_REQUIRED_MINIMUM;
    if ((unsigned)attr->fc_type > DRAGON_CHANNEL_FC_MSGS)
        return DRAGON_CHANNEL_INVALID_FC_TYPE;
    if ((unsigned)attr->lock_type > DRAGON_LOCK_GREEDY)
        return DRAGON_INVALID_LOCK_KIND;
    if (attr->flags != DRAGON_CHANNEL_FLAGS_NONE || attr->buffer_pool != NULL)
        return DRAGON_NOT_IMPLEMENTED;
    if (attr->capacity > UINT32_MAX || attr->max_spinners > UINT32_MAX)
        return DRAGON_INVALID_ARGUMENT;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.uid = c_uid;
    options.capacity = (uint32_t)attr->capacity;
    options.block = (uint32_t)(attr->bytes_per_msg_block + sizeof(struct umbra_dragon_envelope));
    options.max_spinners = (uint32_t)attr->max_spinners;
    options.kind = attr->semaphore ? UMBRA_CHANNEL_SEMAPHORE : UMBRA_CHANNEL_MESSAGES;
    options.bounded = attr->bounded;
    options.initial = attr->initial_sem_value;
    ch->_pool = *pool;
    ch->_uid = c_uid;
    ch->_block = attr->bytes_per_msg_block;
    ch->_capacity = attr->semaphore ? 1 : attr->capacity;
    ch->_is_semaphore = attr->semaphore;
    return umbra_dragon_code(umbra_channel_create(&options, &ch->_channel), DRAGON_OUT_OF_SPACE);
}

/* A number that a channel tells at once. */
static inline dragonError_t umbra_dragon_ask(const dragonChannelDescr_t *ch, int event, uint64_t *result)
{
    if (ch == NULL || result == NULL)
        return DRAGON_INVALID_ARGUMENT;
    return umbra_dragon_code(umbra_channel_poll(ch->_channel, event, UMBRA_WAIT_ADAPTIVE, 0, result), DRAGON_INVALID_VALUE);
}

static inline dragonError_t dragon_channel_message_count(const dragonChannelDescr_t *ch, uint64_t *count)
{
    return umbra_dragon_ask(ch, UMBRA_POLL_SIZE, count);
}

static inline dragonError_t dragon_channel_capacity(const dragonChannelDescr_t *ch, uint64_t *size)
{
    return umbra_dragon_ask(ch, UMBRA_POLL_CAPACITY, size);
}

static inline dragonError_t dragon_channel_barrier_waiters(const dragonChannelDescr_t *ch, uint64_t *count)
{
    return umbra_dragon_ask(ch, UMBRA_POLL_BARRIER_WAITERS, count);
}

static inline dragonError_t dragon_channel_blocked_receivers(const dragonChannelDescr_t *ch, uint64_t *count)
{
    return umbra_dragon_ask(ch, UMBRA_POLL_BLOCKED_RECEIVERS, count);
}

static inline bool dragon_channel_barrier_is_broken(const dragonChannelDescr_t *ch)
{
    uint64_t is_broken = 0;
    return umbra_dragon_ask(ch, UMBRA_POLL_BARRIER_IS_BROKEN, &is_broken) == DRAGON_SUCCESS && is_broken != 0;
}

static inline bool dragon_channel_is_local(const dragonChannelDescr_t *ch)
{
    return ch != NULL && ch->_channel != 0;
}

static inline dragonError_t dragon_channel_get_attr(const dragonChannelDescr_t *ch, dragonChannelAttr_t *attr)
{
    uint64_t number = 0;
    dragonError_t code;
    if (ch == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    dragon_channel_attr_init(attr);
    attr->c_uid = ch->_uid;
    attr->bytes_per_msg_block = ch->_block;
    attr->capacity = ch->_capacity;
    attr->semaphore = ch->_is_semaphore != 0;
    if (attr->semaphore)
        return umbra_dragon_ask(ch, UMBRA_POLL_SEMAPHORE_PEEK, &number);
    if ((code = dragon_channel_message_count(ch, &number)) != DRAGON_SUCCESS)
        return code;
    attr->num_msgs = number;
    if ((code = dragon_channel_capacity(ch, &number)) != DRAGON_SUCCESS)
        return code;
    attr->capacity = number;
    attr->num_avail_blocks = attr->capacity - attr->num_msgs;
    attr->broken_barrier = dragon_channel_barrier_is_broken(ch);
    if (dragon_channel_blocked_receivers(ch, &number) == DRAGON_SUCCESS)
        attr->blocked_receivers = (int)number;
    if (dragon_channel_barrier_waiters(ch, &number) == DRAGON_SUCCESS)
        attr->barrier_count = (int)number;
    return DRAGON_SUCCESS;
}

/* What goes in front of a message that was received; of one that a barrier hands out, a number alone, nothing does. A message that
 * is memory has nothing behind it. */
static inline bool umbra_dragon_opened(const uint8_t *bytes, size_t length, struct umbra_dragon_envelope *envelope)
{
    memset(envelope, 0, sizeof *envelope);
    envelope->length = sizeof(uint64_t);
    if (length == sizeof(uint64_t))
        return true;
    if (length < sizeof *envelope)
        return false;
    memcpy(envelope, bytes, sizeof *envelope);
    return (envelope->is_memory ? 0 : envelope->length) == length - sizeof *envelope;
}

/* Takes all messages out, and frees the memory that they are; also those that senders put in who waited for room. Who sends again
 * and again is not waited for. */
static inline void umbra_dragon_drain(const dragonChannelDescr_t *ch)
{
    size_t room = ch->_block + sizeof(struct umbra_dragon_envelope), length = 0;
    uint8_t *bytes = (uint8_t *)malloc(room);
    struct umbra_dragon_envelope envelope;
    uint64_t left = 0;
    dragon_channel_capacity(ch, &left);
    for (left += UMBRA_DRAGON_WAITING; bytes != NULL && left > 0; left--) {
        if (umbra_channel_receive(ch->_channel, bytes, room, UMBRA_WAIT_ADAPTIVE, 0, &length, NULL) != 0)
            break;
        if (umbra_dragon_opened(bytes, length, &envelope) && envelope.is_memory && !envelope.is_lent)
            umbra_allocation_free(ch->_pool._pool, envelope.allocation);
    }
    free(bytes);
}

static inline dragonError_t dragon_channel_detach(dragonChannelDescr_t *ch)
{
    dragonError_t code =
        ch == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_code(umbra_channel_detach(ch->_channel), DRAGON_FAILURE);
    if (code == DRAGON_SUCCESS)
        ch->_channel = 0;
    return code;
}

/* Memory that a blocked sender hands over while there is room, between the two, stays in the pool. */
static inline dragonError_t dragon_channel_destroy(dragonChannelDescr_t *ch)
{
    int code;
    if (ch == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!ch->_is_semaphore)
        umbra_dragon_drain(ch);
    code = umbra_channel_destroy(ch->_channel);
    return code != 0 ? umbra_dragon_code(code, DRAGON_FAILURE) : dragon_channel_detach(ch);
}

static inline dragonError_t dragon_channel_serialize(const dragonChannelDescr_t *ch, dragonChannelSerial_t *serial)
{
    uint8_t *behind, bytes[UMBRA_DRAGON_PART];
    uint64_t numbers[4];
    size_t length = 0;
    int code;
    dragonError_t made;
    if (ch == NULL || serial == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(serial, 0, sizeof *serial);
    if ((code = umbra_channel_reference(ch->_channel, bytes, sizeof bytes, &length)) != 0)
        return umbra_dragon_code(code, DRAGON_FAILURE);
    if ((made = umbra_dragon_pool_bytes(serial, &ch->_pool, &behind)) != DRAGON_SUCCESS)
        return made;
    numbers[0] = ch->_uid;
    numbers[1] = ch->_block;
    numbers[2] = ch->_capacity;
    numbers[3] = ch->_is_semaphore;
    umbra_dragon_seal(serial, umbra_dragon_put(umbra_dragon_put(behind, bytes, length), numbers, sizeof numbers));
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_serial_free(dragonChannelSerial_t *serial)
{
    return umbra_dragon_serial_free(serial);
}

/* The numbers of a serialized channel: id, block, capacity, whether it is a semaphore. */
static inline dragonError_t umbra_dragon_channel_numbers(const dragonChannelSerial_t *serial, uint64_t *numbers,
                                                         const uint8_t **reference, size_t *length)
{
    size_t at = 0, ignored = 0, have = 0;
    const uint8_t *part = umbra_dragon_get(serial, &at, &ignored);
    part = part == NULL ? NULL : umbra_dragon_get(serial, &at, &ignored);
    *reference = part == NULL ? NULL : umbra_dragon_get(serial, &at, length);
    part = *reference == NULL ? NULL : umbra_dragon_get(serial, &at, &have);
    if (part == NULL || have != 4 * sizeof *numbers || at != serial->len)
        return DRAGON_INVALID_ARGUMENT;
    memcpy(numbers, part, have);
    return numbers[1] > UINT32_MAX / 2 ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

/* Attaches the pool as well, by a handle that all who attach so share. It stays until the end of the process: received memory is
 * of it. */
static inline dragonError_t dragon_channel_attach(const dragonChannelSerial_t *serial, dragonChannelDescr_t *ch)
{
    dragonSerial_t body = umbra_dragon_body(serial);
    uint64_t numbers[4];
    size_t at = 0, length = 0;
    const uint8_t *reference;
    dragonError_t code;
    int attached;
    if (ch == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(ch, 0, sizeof *ch);
    if ((code = umbra_dragon_channel_numbers(&body, numbers, &reference, &length)) != DRAGON_SUCCESS ||
        (code = umbra_dragon_pool_of(&ch->_pool, &body, &at, true)) != DRAGON_SUCCESS)
        return code;
    ch->_uid = numbers[0];
    ch->_block = numbers[1];
    ch->_capacity = numbers[2];
    ch->_is_semaphore = numbers[3];
    if ((attached = umbra_channel_attach_reference(reference, length, &ch->_channel)) != 0) {
        dragon_memory_pool_detach(&ch->_pool);
        memset(ch, 0, sizeof *ch);
    }
    return umbra_dragon_code(attached, DRAGON_OUT_OF_SPACE);
}

static inline dragonError_t dragon_channel_get_uid(const dragonChannelSerial_t *serial, dragonULInt *cuid)
{
    dragonSerial_t body = umbra_dragon_body(serial);
    uint64_t numbers[4];
    size_t length = 0;
    const uint8_t *reference;
    dragonError_t code =
        cuid == NULL ? DRAGON_INVALID_ARGUMENT : umbra_dragon_channel_numbers(&body, numbers, &reference, &length);
    if (code == DRAGON_SUCCESS)
        *cuid = numbers[0];
    return code;
}

static inline dragonError_t dragon_channel_descr_clone(dragonChannelDescr_t *to, const dragonChannelDescr_t *from)
{
    if (to == NULL || from == NULL || from->_channel == 0)
        return DRAGON_INVALID_ARGUMENT;
    *to = *from;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_get_pool(const dragonChannelDescr_t *ch, dragonMemoryPoolDescr_t *pool)
{
    return ch == NULL ? DRAGON_INVALID_ARGUMENT : dragon_memory_pool_descr_clone(pool, &ch->_pool);
}

static inline dragonError_t dragon_channel_send_attr_init(dragonChannelSendAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attr, 0, sizeof *attr);
    attr->return_mode = DRAGON_CHANNEL_SEND_RETURN_WHEN_BUFFERED;
    attr->default_timeout = DRAGON_CHANNEL_BLOCKING_NOTIMEOUT;
    attr->wait_mode = DRAGON_DEFAULT_WAIT_MODE;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_recv_attr_init(dragonChannelRecvAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attr, 0, sizeof *attr);
    attr->default_timeout = DRAGON_CHANNEL_BLOCKING_NOTIMEOUT;
    attr->wait_mode = DRAGON_DEFAULT_WAIT_MODE;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_send_attr_destroy(dragonChannelSendAttr_t *attr)
{
    return attr == NULL ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_recv_attr_destroy(dragonChannelRecvAttr_t *attr)
{
    return attr == NULL ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chsend_set_attr(dragonChannelSendh_t *handle, const dragonChannelSendAttr_t *attr)
{
    if (handle == NULL || attr == NULL || (unsigned)attr->return_mode >= DRAGON_CHANNEL_SEND_RETURN_WHEN_NONE ||
        (unsigned)attr->wait_mode > DRAGON_ADAPTIVE_WAIT)
        return DRAGON_INVALID_ARGUMENT;
    if (attr->return_mode == DRAGON_CHANNEL_SEND_RETURN_WHEN_RECEIVED)
        return DRAGON_NOT_IMPLEMENTED;
    handle->_attrs = *attr;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chsend_get_attr(const dragonChannelSendh_t *handle, dragonChannelSendAttr_t *attr)
{
    if (handle == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *attr = handle->_attrs;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_sendh(const dragonChannelDescr_t *ch, dragonChannelSendh_t *handle,
                                                 const dragonChannelSendAttr_t *attr)
{
    dragonChannelSendAttr_t usual;
    if (ch == NULL || handle == NULL || ch->_channel == 0 || ch->_is_semaphore)
        return DRAGON_INVALID_ARGUMENT;
    memset(handle, 0, sizeof *handle);
    handle->_ch = *ch;
    dragon_channel_send_attr_init(&usual);
    return dragon_chsend_set_attr(handle, attr == NULL ? &usual : attr);
}

static inline dragonError_t dragon_channel_recvh(const dragonChannelDescr_t *ch, dragonChannelRecvh_t *handle,
                                                 const dragonChannelRecvAttr_t *attr)
{
    if (ch == NULL || handle == NULL || ch->_channel == 0 || ch->_is_semaphore)
        return DRAGON_INVALID_ARGUMENT;
    if (attr != NULL && (unsigned)attr->wait_mode > DRAGON_ADAPTIVE_WAIT)
        return DRAGON_INVALID_ARGUMENT;
    memset(handle, 0, sizeof *handle);
    handle->_ch = *ch;
    dragon_channel_recv_attr_init(&handle->_attrs);
    if (attr != NULL)
        handle->_attrs = *attr;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chrecv_get_attr(const dragonChannelRecvh_t *handle, dragonChannelRecvAttr_t *attr)
{
    if (handle == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *attr = handle->_attrs;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chsend_open(dragonChannelSendh_t *handle)
{
    if (handle == NULL || handle->_ch._channel == 0)
        return DRAGON_INVALID_ARGUMENT;
    if (handle->_opened)
        return DRAGON_CHANNEL_SEND_ALREADY_OPENED;
    handle->_opened = 1;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chsend_close(dragonChannelSendh_t *handle)
{
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!handle->_opened)
        return DRAGON_CHANNEL_SEND_NOT_OPENED;
    handle->_opened = 0;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chrecv_open(dragonChannelRecvh_t *handle)
{
    if (handle == NULL || handle->_ch._channel == 0)
        return DRAGON_INVALID_ARGUMENT;
    if (handle->_opened)
        return DRAGON_CHANNEL_RECV_ALREADY_OPENED;
    handle->_opened = 1;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_chrecv_close(dragonChannelRecvh_t *handle)
{
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!handle->_opened)
        return DRAGON_CHANNEL_RECV_NOT_OPENED;
    handle->_opened = 0;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_message_attr_init(dragonMessageAttr_t *attr)
{
    if (attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    memset(attr, 0, sizeof *attr);
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_message_attr_destroy(dragonMessageAttr_t *attr)
{
    return attr == NULL ? DRAGON_INVALID_ARGUMENT : DRAGON_SUCCESS;
}

/* A message of this memory, which stays the caller's to detach; with NULL one that memory is to be found for. */
static inline dragonError_t dragon_channel_message_init(dragonMessage_t *msg, dragonMemoryDescr_t *mem,
                                                        const dragonMessageAttr_t *attr)
{
    if (msg == NULL || (mem != NULL && mem->_pool._pool == 0))
        return DRAGON_INVALID_ARGUMENT;
    memset(msg, 0, sizeof *msg);
    if (attr != NULL)
        msg->_attr = *attr;
    if (mem != NULL) {
        msg->_mem = *mem;
        msg->_mem._is_attached = 0;
        msg->_has_mem = 1;
    }
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_message_init_inplace(dragonMessage_t *msg, dragonMemoryDescr_t *mem,
                                                                const dragonMessageAttr_t *attr, bool is_inited)
{
    return dragon_channel_message_init(msg, is_inited ? mem : NULL, attr);
}

static inline dragonError_t dragon_channel_message_init_move(dragonMessage_t *msg, dragonMemoryDescr_t *mem,
                                                             const dragonMessageAttr_t *attr)
{
    dragonError_t code = dragon_channel_message_init(msg, mem, attr);
    if (code == DRAGON_SUCCESS && mem != NULL) {
        msg->_mem._is_attached = mem->_is_attached;
        memset(mem, 0, sizeof *mem);
    }
    return code;
}

static inline dragonError_t dragon_channel_message_destroy(dragonMessage_t *msg, const bool free_mem_descr)
{
    dragonError_t code = DRAGON_SUCCESS;
    if (msg == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (free_mem_descr && msg->_has_mem) {
        code = dragon_memory_free(&msg->_mem);
        if (msg->_mem._is_attached)
            dragon_memory_detach(&msg->_mem);
    }
    memset(msg, 0, sizeof *msg);
    return code;
}

static inline dragonError_t dragon_channel_message_get_mem(const dragonMessage_t *msg, dragonMemoryDescr_t *mem)
{
    if (msg == NULL || mem == NULL || !msg->_has_mem)
        return DRAGON_INVALID_ARGUMENT;
    *mem = msg->_mem;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_message_get_ptr_info(const dragonMessage_t *msg, void **ptr, size_t *size)
{
    return msg == NULL || !msg->_has_mem ? DRAGON_INVALID_ARGUMENT : dragon_memory_get_ptr_info(&msg->_mem, ptr, size);
}

static inline dragonError_t dragon_channel_message_getattr(const dragonMessage_t *msg, dragonMessageAttr_t *attr)
{
    if (msg == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    *attr = msg->_attr;
    return DRAGON_SUCCESS;
}

static inline dragonError_t dragon_channel_message_setattr(dragonMessage_t *msg, const dragonMessageAttr_t *attr)
{
    if (msg == NULL || attr == NULL)
        return DRAGON_INVALID_ARGUMENT;
    msg->_attr = *attr;
    return DRAGON_SUCCESS;
}

/* A deadline, in milliseconds of a clock that never goes back; and what is left of it. */
static inline uint64_t umbra_dragon_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline uint64_t umbra_dragon_left(uint64_t timeout_ms, uint64_t began)
{
    uint64_t gone = timeout_ms == 0 || timeout_ms == UMBRA_FOREVER ? 0 : umbra_dragon_clock() - began;
    return gone < timeout_ms || timeout_ms == 0 ? timeout_ms - gone : 1;
}

/* Sends a copy, or the memory itself. On failure the caller's memory is as it was. */
static inline dragonError_t dragon_chsend_send_msg(const dragonChannelSendh_t *handle, const dragonMessage_t *msg,
                                                   dragonMemoryDescr_t *dest, const timespec_t *timeout)
{
    struct umbra_dragon_envelope envelope;
    dragonMemoryDescr_t source, copy;
    const dragonChannelDescr_t *ch;
    uint64_t patience, began = umbra_dragon_clock();
    bool hands_over, lends, is_of_pool, is_copied = false, is_named = false;
    uint8_t *bytes, *before = NULL;
    void *from, *to = NULL;
    dragonError_t code;
    int sent;
    if (handle == NULL || msg == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!handle->_opened)
        return DRAGON_CHANNEL_SEND_NOT_OPENED;
    if (!msg->_has_mem)
        return DRAGON_CHANNEL_SEND_MESSAGE_MEMORY_NULL;
    ch = &handle->_ch;
    source = copy = msg->_mem;
    patience = umbra_dragon_ms(timeout == NULL ? &handle->_attrs.default_timeout : timeout);
    hands_over = dest == DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP || msg->_attr.send_transfer_ownership;
    lends = dest == DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY || msg->_attr.no_copy_read_only;
    if (dest == DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP || dest == DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY)
        dest = NULL;
    is_of_pool = umbra_dragon_is_same(&source._pool, &ch->_pool);
    /* What was only lent is its owner's to free, and to write to. */
    if ((hands_over && (lends || source._is_lent)) || (lends && !is_of_pool) || (dest != NULL && dest->_is_lent))
        return DRAGON_INVALID_ARGUMENT;
    /* The receivers know no other pool. */
    if (dest != NULL && !umbra_dragon_is_same(&dest->_pool, &ch->_pool))
        return DRAGON_NOT_IMPLEMENTED;
    if (dest != NULL && dest->_length != 0 && dest->_length < source._length)
        return DRAGON_INVALID_ARGUMENT;
    if ((code = dragon_memory_get_pointer(&source, &from)) != DRAGON_SUCCESS)
        return code;
    memset(&envelope, 0, sizeof envelope);
    envelope.clientid = msg->_attr.clientid;
    memcpy(envelope.sendhid, handle->_attrs.sendhid, sizeof envelope.sendhid);
    envelope.length = source._length;
    envelope.is_lent = lends;
    envelope.is_memory =
        lends || dest != NULL || source._length > ch->_block || (hands_over && source._length != 0);
    if (envelope.is_memory && !lends && (dest != NULL || !hands_over || !is_of_pool)) {
        if (dest != NULL && dest->_length != 0) {
            copy = *dest;
            copy._length = source._length;
            is_named = is_of_pool && copy._id == source._id;
        } else {
            if ((code = umbra_dragon_alloc(&copy, &ch->_pool, source._length, DRAGON_MEMORY_ALLOC_CHANNEL_BUFFER, patience)) !=
                DRAGON_SUCCESS)
                return code;
            is_copied = true;
        }
        if ((code = dragon_memory_get_pointer(&copy, &to)) != DRAGON_SUCCESS)
            return code;
        /* What the caller has there is his until the message is sent. */
        if (!is_copied) {
            if ((before = (uint8_t *)malloc(source._length + 1)) == NULL)
                return umbra_dragon_code(-UMBRA_ESYSTEM, DRAGON_CHANNEL_FULL);
            memcpy(before, to, source._length);
        }
        memmove(to, from, source._length);
        envelope.allocation = copy._id;
        envelope.offset = copy._offset;
    } else {
        envelope.allocation = source._id;
        envelope.offset = source._offset;
        is_named = envelope.is_memory;
    }
    sent = -UMBRA_ESYSTEM;
    if ((bytes = (uint8_t *)malloc(sizeof envelope + ch->_block)) != NULL) {
        size_t length = sizeof envelope;
        memcpy(bytes, &envelope, sizeof envelope);
        if (!envelope.is_memory) {
            memcpy(bytes + sizeof envelope, from, source._length);
            length += source._length;
        }
        sent = umbra_channel_send(ch->_channel, bytes, length, msg->_attr.hints, umbra_dragon_mode(handle->_attrs.wait_mode),
                                  umbra_dragon_left(patience, began));
        free(bytes);
    }
    if (sent != 0 && is_copied)
        dragon_memory_free(&copy);
    if (sent != 0 && before != NULL)
        memcpy(to, before, source._length);
    free(before);
    /* What was handed over and copied is not needed any more. */
    if (sent == 0 && hands_over && !is_named)
        dragon_memory_free(&source);
    return umbra_dragon_code(sent, DRAGON_CHANNEL_FULL);
}

/* Receives the first message. Memory for it is found before it is taken, so nothing is lost if there is none, or if the caller's
 * was freed, or only lent to him. */
static inline dragonError_t umbra_dragon_receive(const dragonChannelRecvh_t *handle, dragonMessage_t *msg, uint64_t patience,
                                                 bool takes)
{
    const dragonChannelDescr_t *ch = &handle->_ch;
    uint32_t mode = umbra_dragon_mode(handle->_attrs.wait_mode);
    uint64_t began = umbra_dragon_clock(), hints = 0;
    size_t room = sizeof(struct umbra_dragon_envelope) + ch->_block, length = 0;
    dragonMemoryDescr_t own;
    bool has_own = false, is_given = msg->_has_mem == 1, is_fixed = is_given && msg->_mem._length != 0;
    struct umbra_dragon_envelope envelope;
    uint8_t *bytes = (uint8_t *)malloc(room);
    dragonError_t code = bytes == NULL ? DRAGON_INTERNAL_MALLOC_FAIL : DRAGON_SUCCESS;
    void *from, *to;
    while (code == DRAGON_SUCCESS) {
        int done = umbra_channel_peek(ch->_channel, bytes, room, mode, umbra_dragon_left(patience, began), &length, &hints);
        has_own = false;
        /* Only as much as there is room for was copied: blocks of the channel are longer than the descriptor says. */
        if (done != 0 || length > room || !umbra_dragon_opened(bytes, length, &envelope)) {
            code = done == 0 ? DRAGON_CHANNEL_RECV_INVALID_SERIALIZED_MSG : umbra_dragon_code(done, DRAGON_FAILURE);
            break;
        }
        own = msg->_mem;
        if (is_fixed && (own._is_lent || envelope.length > own._length)) {
            code = DRAGON_CHANNEL_RECV_INVALID_DESTINATION_MEMORY;
            break;
        }
        if (is_fixed && (code = dragon_memory_get_pointer(&own, &to)) != DRAGON_SUCCESS)
            break;
        if (!is_fixed && (!envelope.is_memory || is_given)) {
            code = umbra_dragon_alloc(&own, is_given ? &msg->_mem._pool : &ch->_pool, envelope.length,
                                      DRAGON_MEMORY_ALLOC_DATA, umbra_dragon_left(patience, began));
            has_own = code == DRAGON_SUCCESS;
        }
        if (code != DRAGON_SUCCESS)
            break;
        if (takes) {
            struct umbra_dragon_envelope seen = envelope;
            done = umbra_channel_receive(ch->_channel, bytes, length, mode, 0, &length, &hints);
            if (done == 0 && !umbra_dragon_opened(bytes, length, &envelope))
                code = DRAGON_CHANNEL_RECV_INVALID_SERIALIZED_MSG;
            else if (done == -UMBRA_EEMPTY || done == -UMBRA_ESIZE ||
                     (done == 0 && !envelope.is_memory && seen.is_memory && !is_fixed && !has_own)) {
                /* Another receiver took the one that was seen. A short message that came instead has no memory yet. */
                if (has_own)
                    dragon_memory_free(&own);
                has_own = false;
                if (done != 0)
                    continue;
                code = umbra_dragon_alloc(&own, &ch->_pool, envelope.length, DRAGON_MEMORY_ALLOC_DATA,
                                          umbra_dragon_left(patience, began));
                has_own = code == DRAGON_SUCCESS;
                /* Only a number that a barrier hands out is so short and needs memory. They have no order: it goes back. */
                if (!has_own)
                    umbra_channel_send(ch->_channel, bytes, length, hints, mode, 0);
            } else if (done != 0) {
                code = umbra_dragon_code(done, DRAGON_FAILURE);
            }
        }
        if (code != DRAGON_SUCCESS)
            break;
        if (envelope.is_memory) {
            dragonMemoryDescr_t memory;
            code = dragon_memory_from_id(&ch->_pool, envelope.allocation, &memory);
            if (code == DRAGON_SUCCESS && (envelope.offset > memory._whole || envelope.length > memory._whole - envelope.offset))
                code = DRAGON_CHANNEL_RECV_INVALID_SERIALIZED_MSG;
            memory._offset = envelope.offset;
            memory._length = envelope.length;
            memory._is_lent = envelope.is_lent != 0 || !takes;
            if (code == DRAGON_SUCCESS && (is_fixed || has_own) && envelope.length <= own._length &&
                (code = umbra_dragon_both(&memory, &from, &own, &to, envelope.length)) == DRAGON_SUCCESS) {
                memcpy(to, from, envelope.length);
                if (!memory._is_lent)
                    dragon_memory_free(&memory);
            } else if (code == DRAGON_SUCCESS) {
                /* Longer than the one that was seen, which another receiver took. */
                if (has_own)
                    dragon_memory_free(&own);
                has_own = false;
                own = memory;
            }
        } else if (envelope.length > own._length) {
            /* A number of a barrier, in a channel of messages. */
            code = DRAGON_CHANNEL_RECV_INVALID_DESTINATION_MEMORY;
        } else if ((code = dragon_memory_get_pointer(&own, &to)) == DRAGON_SUCCESS) {
            memcpy(to, bytes + length - envelope.length, envelope.length);
        }
        if (code != DRAGON_SUCCESS)
            break;
        own._length = envelope.length;
        msg->_mem = own;
        msg->_has_mem = own._is_lent ? 2 : 1;
        msg->_attr.hints = hints;
        msg->_attr.clientid = envelope.clientid;
        memcpy(msg->_attr.sendhid, envelope.sendhid, sizeof envelope.sendhid);
        msg->_attr.no_copy_read_only = envelope.is_lent != 0;
        free(bytes);
        return DRAGON_SUCCESS;
    }
    if (has_own)
        dragon_memory_free(&own);
    free(bytes);
    return code;
}

static inline dragonError_t dragon_chrecv_get_msg_blocking(const dragonChannelRecvh_t *handle, dragonMessage_t *msg,
                                                           const timespec_t *timeout)
{
    if (handle == NULL || msg == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!handle->_opened)
        return DRAGON_CHANNEL_RECV_NOT_OPENED;
    return umbra_dragon_receive(handle, msg, umbra_dragon_ms(timeout == NULL ? &handle->_attrs.default_timeout : timeout), true);
}

static inline dragonError_t dragon_chrecv_get_msg(const dragonChannelRecvh_t *handle, dragonMessage_t *msg)
{
    return dragon_chrecv_get_msg_blocking(handle, msg, &DRAGON_CHANNEL_TRYONCE_TIMEOUT);
}

/* Looks at the first message: it stays, and what it is in is only lent if it is memory. */
static inline dragonError_t dragon_chrecv_peek_msg(const dragonChannelRecvh_t *handle, dragonMessage_t *msg)
{
    if (handle == NULL || msg == NULL)
        return DRAGON_INVALID_ARGUMENT;
    return handle->_opened ? umbra_dragon_receive(handle, msg, 0, false) : DRAGON_CHANNEL_RECV_NOT_OPENED;
}

/* Removes the first message, and frees the memory that it is. */
static inline dragonError_t dragon_chrecv_pop_msg(const dragonChannelRecvh_t *handle)
{
    struct umbra_dragon_envelope envelope;
    size_t room, length = 0;
    uint8_t *bytes;
    int done;
    if (handle == NULL)
        return DRAGON_INVALID_ARGUMENT;
    if (!handle->_opened)
        return DRAGON_CHANNEL_RECV_NOT_OPENED;
    room = sizeof envelope + handle->_ch._block;
    if ((bytes = (uint8_t *)malloc(room)) == NULL)
        return DRAGON_INTERNAL_MALLOC_FAIL;
    done = umbra_channel_receive(handle->_ch._channel, bytes, room, UMBRA_WAIT_ADAPTIVE, 0, &length, NULL);
    if (done == 0 && umbra_dragon_opened(bytes, length, &envelope) && envelope.is_memory && !envelope.is_lent)
        umbra_allocation_free(handle->_ch._pool._pool, envelope.allocation);
    free(bytes);
    return umbra_dragon_code(done, DRAGON_FAILURE);
}

static inline dragonError_t dragon_channel_poll(const dragonChannelDescr_t *ch, dragonWaitMode_t wait_mode, const short event,
                                                const timespec_t *timeout, dragonULInt *result)
{
    uint64_t number = 0;
    int code;
    if (ch == NULL || ch->_channel == 0)
        return DRAGON_INVALID_ARGUMENT;
    if (result == NULL && (event == DRAGON_CHANNEL_POLLSIZE || event == DRAGON_CHANNEL_POLLCAPACITY ||
                           (event >= DRAGON_CHANNEL_POLLBARRIER_ISBROKEN && event <= DRAGON_CHANNEL_POLLBLOCKED_RECEIVERS) ||
                           event == DRAGON_SEMAPHORE_PEEK))
        return DRAGON_INVALID_ARGUMENT;
    if (event == DRAGON_CHANNEL_POLLRESET && !ch->_is_semaphore)
        umbra_dragon_drain(ch);
    code = umbra_channel_poll(ch->_channel, event, umbra_dragon_mode(wait_mode), umbra_dragon_ms(timeout), &number);
    if (code == 0 && result != NULL)
        *result = event <= DRAGON_CHANNEL_POLLFULL || event == DRAGON_CHANNEL_POLLBARRIER_WAIT ? (dragonULInt)event : number;
    if (code == 0 && event == DRAGON_CHANNEL_POLLBARRIER_WAIT && number == 1)
        return DRAGON_BARRIER_READY_TO_RELEASE;
    return umbra_dragon_code(code, DRAGON_INVALID_VALUE);
}

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_DRAGON_CHANNELS_H */
