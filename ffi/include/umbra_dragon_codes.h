/* umbra_dragon_codes.h: codes, names that all parts share, and serialized bytes; included by umbra_dragon.h. */
#ifndef UMBRA_DRAGON_CODES_H
#define UMBRA_DRAGON_CODES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#ifndef CLOCK_MONOTONIC
#error "Define _POSIX_C_SOURCE as 199309L or later in front of all includes, or compile as gnu99: timeouts need the clock of POSIX."
#endif

#include "umbra.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- codes ---- */

#define UMBRA_DRAGON_CODES(X) \
    X(SUCCESS, 0) X(FAILURE, 1) X(EAGAIN, 2) X(EMPTY, 3) X(EOT, 4) X(INTERNAL_MALLOC_FAIL, 5) X(NO_MORE_KEYS, 6)     \
    X(NOT_IMPLEMENTED, 7) X(NOT_FOUND, 8) X(NOT_FULL, 9) X(OUT_OF_SPACE, 10) X(TIMEOUT, 11) X(USER_CODE_ERROR, 12)   \
    X(INVALID_ARGUMENT, 13) X(INVALID_MESSAGE, 14) X(INVALID_LOCK_KIND, 15) X(INVALID_OPERATION, 16)                 \
    X(INVALID_SYNC_KIND, 17) X(INVALID_STATE, 18) X(INVALID_VALUE, 19) X(BARRIER_BROKEN, 20)                         \
    X(BARRIER_WAIT_TRY_AGAIN, 21) X(BARRIER_READY_TO_RELEASE, 22) X(BCAST_IDLE_WAIT_CALL_ERROR, 23)                  \
    X(BCAST_NO_WAITERS, 24) X(BCAST_NO_WAITERS_NON_CRITICAL, 25) X(BCAST_INSUFFICIENT_WAITERS, 26)                   \
    X(BCAST_NOT_SERIALIZABLE, 27) X(BCAST_CALLBACK_ERROR, 28) X(BCAST_SIGNAL_ERROR, 29) X(BCAST_HANDLE_ERROR, 30)    \
    X(BCAST_DEAD_WAITER, 31) X(BITSET_BOUNDS_ERROR, 32) X(BITSET_NULL_POINTER, 33) X(BITSET_ITERATION_COMPLETE, 34)  \
    X(BLOCKS_ITERATION_COMPLETE, 35) X(CHANNEL_MEMORY_POOL_NONLOCAL, 36) X(CHANNEL_BUFFER_ERROR, 37)                 \
    X(CHANNEL_CAPACITY_BELOW_REQUIRED_MINIMUM, 38) X(CHANNEL_BLOCKSIZE_BELOW_REQUIRED_MINIMUM, 39)                   \
    X(CHANNEL_BLOCKSIZE_OVER_ALLOWED_MAXIMUM, 40) X(CHANNEL_INVALID_FC_TYPE, 41) X(CHANNEL_EMPTY, 42)                \
    X(CHANNEL_FULL, 43) X(CHANNEL_NO_GATEWAYS, 44) X(CHANNEL_INVALID_GATEWAY, 45)                                    \
    X(CHANNEL_GATEWAY_ALREADY_REGISTERED, 46) X(CHANNEL_GATEWAY_NOT_REGISTERED, 47)                                  \
    X(CHANNEL_GATEWAY_TRANSPORT_WAIT_TIMEOUT, 48) X(CHANNEL_EVENT_CAPACITY_EXCEEDED, 49)                             \
    X(CHANNEL_SEND_NOT_OPENED, 50) X(CHANNEL_SEND_ALREADY_OPENED, 51) X(CHANNEL_SEND_MESSAGE_MEMORY_NULL, 52)        \
    X(CHANNEL_SEND_INVALID_DESTINATION_MEMORY, 53) X(CHANNEL_RECV_INVALID_CALL, 54) X(CHANNEL_RECV_NOT_OPENED, 55)   \
    X(CHANNEL_RECV_ALREADY_OPENED, 56) X(CHANNEL_RECV_INVALID_DESTINATION_MEMORY, 57)                                \
    X(CHANNEL_RECV_INVALID_SERIALIZED_MSG, 58) X(CHANNEL_OPERATION_UNSUPPORTED_REMOTELY, 59)                         \
    X(DDICT_CHECKPOINT_RETIRED, 60) X(DDICT_FUTURE_CHECKPOINT, 61) X(DDICT_PERSIST_CHECKPOINT_UNAVAILABLE, 62)       \
    X(DYNHEAP_REQUESTED_SIZE_TOO_LARGE, 63) X(DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE, 64)                              \
    X(DYNHEAP_MAX_BLOCK_SIZE_TOO_LARGE, 65) X(DYNHEAP_MIN_BLOCK_SIZE_TOO_SMALL, 66) X(DYNHEAP_INVALID_HEAP, 67)      \
    X(DYNHEAP_INVALID_POINTER, 68) X(DYNHEAP_DESTROY_BY_NON_OWNER, 69) X(DYNHEAP_DETACH_BY_OWNER, 70)                \
    X(DYNHEAP_INCORRECT_MEMORY_ALIGNMENT, 71) X(DYNHEAP_BAD_ALIGNMENT_REQUEST, 72)                                   \
    X(DYNHEAP_OUT_OF_BOUNDS_INTERNAL_FAILURE, 73) X(GPU_ERROR, 74) X(GPU_BE_NOT_FOUND, 75) X(GPU_NO_DEVICES, 76)     \
    X(HASHTABLE_KEY_SIZE_ERROR, 77) X(HASHTABLE_VALUE_SIZE_ERROR, 78) X(HASHTABLE_FULL, 79)                          \
    X(HASHTABLE_DUPLICATE_KEY, 80) X(HASHTABLE_KEY_NOT_FOUND, 81) X(HASHTABLE_NULL_POINTER, 82)                      \
    X(HASHTABLE_TOO_BIG, 83) X(HASHTABLE_ITERATION_COMPLETE, 84) X(KEY_NOT_FOUND, 85) X(LOCK_NOT_INITD, 86)          \
    X(LOCK_ALREADY_INITD, 87) X(LOCK_PTHREAD_MUTEX_INIT, 88) X(LOCK_PTHREAD_MUTEX_DESTROY, 89)                       \
    X(LOCK_PTHREAD_MUTEX_LOCK, 90) X(LOCK_PTHREAD_MUTEX_UNLOCK, 91) X(LOGGING_LOW_PRIORITY_MSG, 92)                  \
    X(MAP_KEY_NOT_FOUND, 93) X(MEMORY_ILLEGAL_MEMTYPE, 94) X(MEMORY_OPERATION_ATTEMPT_ON_NONLOCAL_POOL, 95)          \
    X(MEMORY_ERRNO, 96) X(MEMORY_FILENAME_ERROR, 97) X(MEMORY_POOL_FULL, 98) X(NUMA_ERROR, 99)                       \
    X(NUMA_NOT_AVAILABLE, 100) X(NUMA_NOT_FOUND, 101) X(PMSGQUEUE_UNSPECIFIED_ERROR, 102)                            \
    X(PMSGQUEUE_SEND_TO_RECVQ, 103) X(PMSGQUEUE_RECV_FROM_SENDQ, 104) X(PMSGQUEUE_NOT_OPEN, 105)                     \
    X(PMSGQUEUE_EXCEEDS_MAX_MSG_SIZE, 106) X(PMSGQUEUE_CANNOT_SEND, 107) X(PMSGQUEUE_CANNOT_RECV, 108)               \
    X(PMSGQUEUE_INVALID_NAME, 109) X(PMSGQUEUE_PERMISSION_VIOLATION, 110) X(PMSGQUEUE_NO_ERR_MSG_AVAILABLE, 111)     \
    X(PMSGQUEUE_MQUEUE_CONFIG_ERROR, 112) X(PMSGQUEUE_CLOSE_MUST_BE_CALLED_FIRST, 113)                               \
    X(PRIORITY_HEAP_INVALID_ARGUMENT, 114) X(PRIORITY_HEAP_INVALID_BASE, 115) X(PRIORITY_HEAP_INVALID_PRIORITY, 116) \
    X(PRIORITY_HEAP_ALREADY_INITD, 117) X(PRIORITY_HEAP_FULL, 118) X(PRIORITY_HEAP_EMPTY, 119)                       \
    X(OBJECT_DESTROYED, 120) X(SEMAPHORE_NOT_FOUND, 121) X(PEER_DEAD, 201)                                           \
    X(VERSION_MISMATCH, 203) X(BAD_RETURN_CODE, 999)
typedef enum dragonError_st {
#define UMBRA_DRAGON_CODE(name, number) DRAGON_##name = number,
    UMBRA_DRAGON_CODES(UMBRA_DRAGON_CODE)
#undef UMBRA_DRAGON_CODE
} dragonError_t;

typedef dragonError_t dragonChannelError_t;

/* The name of a code. */
static inline const char *dragon_get_rc_string(dragonError_t code)
{
    switch ((int)code) {
#define UMBRA_DRAGON_NAME(name, number) \
    case number: \
        return "DRAGON_" #name;
        UMBRA_DRAGON_CODES(UMBRA_DRAGON_NAME)
#undef UMBRA_DRAGON_NAME
    }
    return "DRAGON_BAD_RETURN_CODE";
}

/* The story of this thread's last failure; the caller frees it. */
static inline char *dragon_getlasterrstr(void)
{
    char *text = (char *)calloc(1, 512);
    if (text != NULL)
        umbra_error_detail(text, 512, NULL);
    return text;
}

/* ---- types that all share ---- */

typedef uint64_t dragonULInt;
typedef uint32_t dragonUInt;
typedef uint64_t dragonRT_UID_t;
typedef uint64_t dragonC_UID_t;
typedef uint64_t dragonP_UID_t;
typedef uint64_t dragonM_UID_t;
typedef uint8_t dragonUUID[16];
typedef struct timespec timespec_t;
typedef void (*dragonReleaseFun)(void *unlock_arg);

typedef enum { DRAGON_IDLE_WAIT = 0, DRAGON_SPIN_WAIT = 1, DRAGON_ADAPTIVE_WAIT = 2 } dragonWaitMode_t;
typedef enum { DRAGON_LOCK_FIFO, DRAGON_LOCK_FIFO_LITE, DRAGON_LOCK_GREEDY } dragonLockKind_t;
typedef enum { DRAGON_NO_SYNC, DRAGON_SYNC } dragonSyncType_t;

static const dragonWaitMode_t DRAGON_DEFAULT_WAIT_MODE = DRAGON_ADAPTIVE_WAIT;
static const timespec_t DRAGON_CHANNEL_BLOCKING_NOTIMEOUT = {INT32_MAX, INT32_MAX};
static const timespec_t DRAGON_CHANNEL_TRYONCE_TIMEOUT = {0, 0};

/* Bytes that others attach by. */
typedef struct {
    size_t len;
    uint8_t *data;
} dragonSerial_t;
typedef dragonSerial_t dragonMemoryPoolSerial_t;
typedef dragonSerial_t dragonMemorySerial_t;
typedef dragonSerial_t dragonChannelSerial_t;
typedef dragonSerial_t dragonFLISerial_t;

/* Parts of serialized bytes, at most; and of the bytes that are made of them. */
#define UMBRA_DRAGON_PART 512
#define UMBRA_DRAGON_SERIAL (3 * (UMBRA_DRAGON_PART + 8) + 64)

/* What a code of umbra.h is called for one who waits for memory, a message, or room. */
static inline dragonError_t umbra_dragon_code(int code, dragonError_t full)
{
    switch (-code) {
    case 0:
        return DRAGON_SUCCESS;
    case UMBRA_EFULL:
        return full;
    case UMBRA_ETIMEOUT:
    case UMBRA_EPARTLY:
        return DRAGON_TIMEOUT;
    case UMBRA_EEMPTY:
        return DRAGON_CHANNEL_EMPTY;
    case UMBRA_EDESTROYED:
        return DRAGON_OBJECT_DESTROYED;
    case UMBRA_EENDED:
        return DRAGON_EOT;
    case UMBRA_EPEER:
        return DRAGON_PEER_DEAD;
    case UMBRA_ENEVER:
        return full == DRAGON_DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE ? DRAGON_DYNHEAP_REQUESTED_SIZE_TOO_LARGE
                                                                   : DRAGON_INVALID_ARGUMENT;
    case UMBRA_EVERSION:
        return DRAGON_VERSION_MISMATCH;
    case UMBRA_ENONLOCAL:
        return DRAGON_MEMORY_OPERATION_ATTEMPT_ON_NONLOCAL_POOL;
    case UMBRA_ESYSTEM:
    case UMBRA_EEXISTS:
    case UMBRA_ENOPOOL:
        return DRAGON_MEMORY_ERRNO;
    case UMBRA_EBROKEN:
        return DRAGON_BARRIER_BROKEN;
    case UMBRA_ENOTREADY:
        return DRAGON_BARRIER_WAIT_TRY_AGAIN;
    case UMBRA_EINUSE:
        return DRAGON_INVALID_OPERATION;
    case UMBRA_EDAMAGED:
        return DRAGON_INVALID_STATE;
    case UMBRA_EPANIC:
        return DRAGON_FAILURE;
    default:
        return DRAGON_INVALID_ARGUMENT;
    }
}

/* Milliseconds; none is without end, zero and what is less one try. */
static inline uint64_t umbra_dragon_ms(const timespec_t *timeout)
{
    if (timeout == NULL || (timeout->tv_sec == INT32_MAX && timeout->tv_nsec == INT32_MAX))
        return UMBRA_FOREVER;
    if (timeout->tv_sec < 0 || timeout->tv_nsec < 0)
        return 0;
    /* Longer than any process lives, and more milliseconds than 64 bits can say. */
    if ((uint64_t)timeout->tv_sec > UMBRA_FOREVER / 2000)
        return UMBRA_FOREVER;
    return (uint64_t)timeout->tv_sec * 1000 + ((uint64_t)timeout->tv_nsec + 999999) / 1000000;
}

static inline uint32_t umbra_dragon_mode(dragonWaitMode_t mode)
{
    return mode == DRAGON_IDLE_WAIT ? UMBRA_WAIT_IDLE : mode == DRAGON_SPIN_WAIT ? UMBRA_WAIT_SPIN : UMBRA_WAIT_ADAPTIVE;
}

/* Appends a part and its length; where the next one goes. */
static inline uint8_t *umbra_dragon_put(uint8_t *at, const void *part, uint64_t length)
{
    memcpy(at, &length, sizeof length);
    memcpy(at + sizeof length, part, length);
    return at + sizeof length + length;
}

/* A sum of bytes that every change of one of them changes: each step is a bijection of what was before. */
static inline uint64_t umbra_dragon_sum(const uint8_t *bytes, size_t length)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t i;
    for (i = 0; i < length; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Puts the sum behind serialized bytes, which end there. */
static inline void umbra_dragon_seal(dragonSerial_t *serial, const uint8_t *behind)
{
    uint64_t sum;
    serial->len = (size_t)(behind - serial->data);
    sum = umbra_dragon_sum(serial->data, serial->len);
    memcpy(serial->data + serial->len, &sum, sizeof sum);
    serial->len += sizeof sum;
}

/* What is in front of the sum, or nothing if it is another one. */
static inline dragonSerial_t umbra_dragon_body(const dragonSerial_t *serial)
{
    dragonSerial_t body = {0, NULL};
    uint64_t sum;
    if (serial == NULL || serial->data == NULL || serial->len < sizeof sum)
        return body;
    memcpy(&sum, serial->data + serial->len - sizeof sum, sizeof sum);
    if (umbra_dragon_sum(serial->data, serial->len - sizeof sum) != sum)
        return body;
    body = *serial;
    body.len -= sizeof sum;
    return body;
}

/* The next part of serialized bytes, or NULL: they are cut. */
static inline const uint8_t *umbra_dragon_get(const dragonSerial_t *serial, size_t *at, size_t *length)
{
    uint64_t announced;
    const uint8_t *part;
    if (serial == NULL || serial->data == NULL || serial->len < sizeof announced || *at > serial->len - sizeof announced)
        return NULL;
    memcpy(&announced, serial->data + *at, sizeof announced);
    if (announced > serial->len - *at - sizeof announced)
        return NULL;
    part = serial->data + *at + sizeof announced;
    *at += sizeof announced + announced;
    *length = announced;
    return part;
}

static inline dragonError_t umbra_dragon_serial_free(dragonSerial_t *serial)
{
    if (serial == NULL)
        return DRAGON_INVALID_ARGUMENT;
    free(serial->data);
    serial->data = NULL;
    serial->len = 0;
    return DRAGON_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_DRAGON_CODES_H */
