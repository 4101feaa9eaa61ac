/* Bytes and descriptors in the words of Dragon's core that say what is not so: a serialized channel that was made anew, a message
 * that is no message, memory that was only lent, times that have passed, and two pools of one id. All of them are refused, or told
 * apart, and nobody loses memory by them, or waits. Nor does anybody lose a message for which there is no memory, or of which
 * only a part was sent in time.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* What the header gets memory by, and what happens before that. */
static size_t most_memory = SIZE_MAX;
static void (*before_memory)(size_t bytes);
static void *maybe_malloc(size_t bytes)
{
    if (before_memory != NULL)
        before_memory(bytes);
    return bytes <= most_memory ? malloc(bytes) : NULL;
}
#define malloc maybe_malloc

/* The clock of the header, so many seconds later. */
static time_t later = 0;
static int later_clock(clockid_t clock, struct timespec *now)
{
    int code = clock_gettime(clock, now);
    now->tv_sec += later;
    return code;
}
#define clock_gettime later_clock

/* Somebody sends as fast as the header takes messages out, so many times. */
#include "umbra.h"
static uint64_t refills = 0;
static int refilled_receive(umbra_channel channel, void *buffer, size_t capacity, uint32_t wait_mode, uint64_t timeout_ms,
                            size_t *length, uint64_t *hints)
{
    int code = umbra_channel_receive(channel, buffer, capacity, wait_mode, timeout_ms, length, hints);
    if (code == 0 && refills > 0 && umbra_channel_send(channel, buffer, *length, 0, wait_mode, 0) == 0)
        refills--;
    return code;
}
#define umbra_channel_receive refilled_receive
#include "dragon_check.h"

#define LENGTH 4000

static dragonMemoryDescr_t filled(dragonMemoryPoolDescr_t *pool, char with)
{
    dragonMemoryDescr_t memory;
    void *address;
    OK(dragon_memory_alloc(&memory, pool, LENGTH));
    OK(dragon_memory_get_pointer(&memory, &address));
    memset(address, with, LENGTH);
    return memory;
}

static int is_filled(const dragonMemoryDescr_t *memory, char with)
{
    void *address;
    size_t length, at;
    OK(dragon_memory_get_ptr_info(memory, &address, &length));
    for (at = 0; at < length && ((char *)address)[at] == with; at++)
        ;
    return length == LENGTH && at == length;
}

static dragonChannelSendh_t sends_to(const dragonChannelDescr_t *channel)
{
    dragonChannelSendh_t handle;
    OK(dragon_channel_sendh(channel, &handle, NULL));
    OK(dragon_chsend_open(&handle));
    return handle;
}

static dragonChannelRecvh_t receives_from(const dragonChannelDescr_t *channel)
{
    dragonChannelRecvh_t handle;
    OK(dragon_channel_recvh(channel, &handle, NULL));
    OK(dragon_chrecv_open(&handle));
    return handle;
}

static dragonError_t send_by(dragonChannelSendh_t *handle, dragonMemoryDescr_t *memory, dragonMemoryDescr_t *how)
{
    dragonMessage_t message;
    OK(dragon_channel_message_init(&message, memory, NULL));
    return dragon_chsend_send_msg(handle, &message, how, NULL);
}

static dragonMemoryDescr_t received_by(dragonChannelRecvh_t *handle)
{
    dragonMessage_t message;
    dragonMemoryDescr_t memory;
    OK(dragon_channel_message_init(&message, NULL, NULL));
    OK(dragon_chrecv_get_msg(handle, &message));
    OK(dragon_channel_message_get_mem(&message, &memory));
    return memory;
}

/* Puts other numbers of the channel in front of the sum: its block and its capacity. */
static void lie(dragonChannelSerial_t *serial, uint64_t block, uint64_t capacity)
{
    uint8_t *behind = serial->data + serial->len - sizeof(uint64_t);
    memcpy(behind - 3 * sizeof block, &block, sizeof block);
    memcpy(behind - 2 * sizeof capacity, &capacity, sizeof capacity);
    umbra_dragon_seal(serial, behind);
}

/* Blocks of one byte, it says; the messages are longer, and there is no room for them. */
static void a_channel_of_other_numbers(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channel, attached;
    dragonChannelSerial_t serial;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives, deceived;
    dragonChannelAttr_t attr;
    dragonMemoryDescr_t memory = filled(pool, 'x'), got;
    dragonMessage_t message;
    int ends[2];
    OK(dragon_channel_attr_init(&attr));
    attr.bytes_per_msg_block = LENGTH;
    attr.capacity = 3;
    OK(dragon_channel_create(&channel, 5, pool, &attr));
    OK(dragon_channel_serialize(&channel, &serial));
    lie(&serial, 1, 0);
    CHECK(pipe(ends) == 0);
    put(ends[1], &serial);
    OK(dragon_channel_serial_free(&serial));
    serial = get(ends[0]);
    close(ends[0]);
    close(ends[1]);
    OK(dragon_channel_attach(&serial, &attached));
    OK(dragon_channel_serial_free(&serial));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    deceived = receives_from(&attached);
    OK(send_by(&sends, &memory, NULL));
    OK(dragon_channel_message_init(&message, NULL, NULL));
    IS(CHANNEL_RECV_INVALID_SERIALIZED_MSG, dragon_chrecv_get_msg(&deceived, &message));
    IS(CHANNEL_RECV_INVALID_SERIALIZED_MSG, dragon_chrecv_peek_msg(&deceived, &message));
    OK(dragon_channel_get_attr(&attached, &attr));
    CHECK(attr.capacity == 3 && attr.num_msgs == 1 && attr.num_avail_blocks == 2);
    got = received_by(&receives);
    CHECK(is_filled(&got, 'x'));
    OK(dragon_memory_free(&got));
    OK(dragon_memory_free(&memory));
    OK(dragon_channel_detach(&attached));
    OK(dragon_channel_destroy(&channel));
}

/* Longer than what says that a message is memory: it is none, and its number frees nothing. */
static void a_message_that_is_none(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channel;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t memory = filled(pool, 'm');
    dragonMessage_t message;
    struct umbra_dragon_envelope forged[2];
    int turn;
    memset(forged, 0, sizeof forged);
    forged[0].is_memory = 1;
    forged[0].length = LENGTH;
    OK(dragon_memory_id(&memory, &forged[0].allocation));
    OK(dragon_channel_create(&channel, 6, pool, NULL));
    receives = receives_from(&channel);
    for (turn = 0; turn < 2; turn++)
        CHECK(umbra_channel_send(channel._channel, forged, sizeof forged[0] + 1, 0, UMBRA_WAIT_ADAPTIVE, 0) == 0);
    OK(dragon_channel_message_init(&message, NULL, NULL));
    IS(CHANNEL_RECV_INVALID_SERIALIZED_MSG, dragon_chrecv_get_msg(&receives, &message));
    /* It stays; one is removed here, the other one with the channel. */
    OK(dragon_chrecv_pop_msg(&receives));
    CHECK(is_filled(&memory, 'm'));
    OK(dragon_channel_destroy(&channel));
    CHECK(is_filled(&memory, 'm'));
    OK(dragon_memory_free(&memory));
}

/* Whoever may only read it hands nothing over, in neither way: its owner has it still. */
static void memory_that_was_lent(dragonMemoryPoolDescr_t *pool)
{
    const timespec_t patience = {60, 0};
    dragonChannelDescr_t channel, manager;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t memory = filled(pool, 'l'), other = filled(pool, 'o'), lent, told;
    dragonMemorySerial_t serial;
    dragonFLIDescr_t adapter;
    dragonFLISendHandleDescr_t speaks;
    dragonMessage_t message;
    OK(dragon_channel_create(&channel, 7, pool, NULL));
    OK(dragon_channel_create(&manager, 8, pool, NULL));
    OK(dragon_fli_create(&adapter, &channel, &manager, pool, 1, NULL, false, NULL));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    OK(send_by(&sends, &memory, DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY));
    lent = received_by(&receives);
    IS(INVALID_ARGUMENT, dragon_memory_free(&lent));
    /* Nor does whoever learns of it from him. */
    OK(dragon_memory_serialize(&serial, &lent));
    OK(dragon_memory_attach(&told, &serial));
    OK(dragon_memory_serial_free(&serial));
    IS(INVALID_ARGUMENT, dragon_memory_free(&told));
    OK(dragon_memory_detach(&told));
    IS(INVALID_ARGUMENT, send_by(&sends, &lent, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP));
    /* It is no place for a message either, which its receiver could free, or which would go over what is there. */
    IS(INVALID_ARGUMENT, send_by(&sends, &other, &lent));
    OK(send_by(&sends, &other, NULL));
    OK(dragon_channel_message_init(&message, &lent, NULL));
    IS(CHANNEL_RECV_INVALID_DESTINATION_MEMORY, dragon_chrecv_get_msg(&receives, &message));
    CHECK(is_filled(&memory, 'l'));
    told = received_by(&receives);
    CHECK(is_filled(&told, 'o'));
    OK(dragon_memory_free(&told));
    OK(dragon_memory_free(&other));
    OK(dragon_fli_open_send_handle(&adapter, &speaks, NULL, NULL, &patience));
    IS(INVALID_ARGUMENT, dragon_fli_send_mem(&speaks, &lent, 0, true, false, &patience));
    OK(dragon_fli_close_send_handle(&speaks, &patience));
    /* Lending it on, or a copy, is another matter. */
    OK(send_by(&sends, &lent, DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY));
    lent = received_by(&receives);
    CHECK(is_filled(&lent, 'l'));
    OK(dragon_memory_free(&memory));
    OK(dragon_fli_destroy(&adapter));
    OK(dragon_channel_destroy(&manager));
    OK(dragon_channel_destroy(&channel));
}

/* What a message was seen in, or was lent by, is no place for the next one: nobody writes there. */
static void what_came_before(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t lent = filled(pool, 'l'), handed = filled(pool, 'h'), got;
    dragonMessage_t message;
    int turn;
    OK(dragon_channel_create(&channel, 11, pool, NULL));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    OK(send_by(&sends, &lent, DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY));
    OK(send_by(&sends, &handed, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP));
    OK(dragon_channel_message_init(&message, NULL, NULL));
    OK(dragon_chrecv_get_msg(&receives, &message));
    for (turn = 0; turn < 3; turn++) {
        if (turn < 2)
            OK(dragon_chrecv_peek_msg(&receives, &message));
        else
            OK(dragon_chrecv_get_msg(&receives, &message));
        OK(dragon_channel_message_get_mem(&message, &got));
        CHECK(is_filled(&got, 'h') && is_filled(&lent, 'l'));
    }
    OK(dragon_memory_free(&got));
    OK(dragon_memory_free(&lent));
    OK(dragon_channel_destroy(&channel));
}

/* No message is taken out for memory that was freed. */
static void a_place_that_is_gone(dragonMemoryPoolDescr_t *pool)
{
    static const size_t lengths[] = {LENGTH, 10};
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t memory = filled(pool, 'g'), part, place, got;
    dragonMessage_t message;
    size_t length, i;
    OK(dragon_channel_create(&channel, 12, pool, NULL));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        length = lengths[i];
        OK(dragon_memory_descr_clone(&part, &memory, 0, &length));
        OK(send_by(&sends, &part, NULL));
        place = filled(pool, 'p');
        OK(dragon_channel_message_init(&message, &place, NULL));
        OK(dragon_memory_free(&place));
        IS(INVALID_ARGUMENT, dragon_chrecv_get_msg(&receives, &message));
        got = received_by(&receives);
        OK(dragon_memory_get_size(&got, &length));
        CHECK(length == lengths[i]);
        OK(dragon_memory_free(&got));
    }
    OK(dragon_memory_free(&memory));
    OK(dragon_channel_destroy(&channel));
}

/* Memory that is handed over and its own place is the receiver's, and is not freed here. */
static void a_place_in_what_is_sent(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t memory = filled(pool, 'i'), got;
    dragonMessageAttr_t attr;
    dragonMessage_t message;
    OK(dragon_channel_create(&channel, 13, pool, NULL));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    OK(dragon_channel_message_attr_init(&attr));
    attr.send_transfer_ownership = true;
    OK(dragon_channel_message_init(&message, &memory, &attr));
    OK(dragon_chsend_send_msg(&sends, &message, &memory, NULL));
    got = received_by(&receives);
    CHECK(is_filled(&got, 'i'));
    OK(dragon_memory_free(&got));
    OK(dragon_channel_destroy(&channel));
}

/* What is sent of a view is the view, lent or handed over. */
static void a_part_of_memory(dragonMemoryPoolDescr_t *pool)
{
    const timespec_t patience = {60, 0};
    dragonChannelDescr_t channel, manager;
    dragonMemoryDescr_t memory = filled(pool, 'p'), part;
    dragonFLIDescr_t adapter;
    dragonFLISendHandleDescr_t speaks;
    dragonFLIRecvHandleDescr_t hears;
    size_t length = 3, got = 0;
    uint8_t *bytes = NULL;
    uint64_t arg = 0;
    int turn;
    OK(dragon_channel_create(&channel, 9, pool, NULL));
    OK(dragon_channel_create(&manager, 10, pool, NULL));
    OK(dragon_fli_create(&adapter, &channel, &manager, pool, 1, NULL, false, NULL));
    OK(dragon_memory_descr_clone(&part, &memory, 2, &length));
    for (turn = 0; turn < 2; turn++) {
        CHECK(is_filled(&memory, 'p'));
        OK(dragon_fli_open_send_handle(&adapter, &speaks, NULL, NULL, &patience));
        OK(dragon_fli_send_mem(&speaks, &part, 5, turn == 1, turn == 0, &patience));
        OK(dragon_fli_close_send_handle(&speaks, &patience));
        OK(dragon_fli_open_recv_handle(&adapter, &hears, NULL, NULL, &patience));
        OK(dragon_fli_recv_bytes(&hears, 0, &got, &bytes, &arg, &patience));
        CHECK(got == length && memcmp(bytes, "ppp", 3) == 0 && arg == 5);
        free(bytes);
        IS(EOT, dragon_fli_recv_bytes(&hears, 0, &got, &bytes, &arg, &patience));
        OK(dragon_fli_close_recv_handle(&hears, &patience));
    }
    CHECK(dragon_memory_free(&memory) != DRAGON_SUCCESS);
    OK(dragon_fli_destroy(&adapter));
    OK(dragon_channel_destroy(&manager));
    OK(dragon_channel_destroy(&channel));
}

static dragonMemoryPoolDescr_t pool_called(const char *what)
{
    dragonMemoryPoolDescr_t pool;
    char name[30];
    snprintf(name, sizeof name, "c-%s-%ld", what, (long)getpid());
    OK(dragon_memory_pool_create(&pool, 1 << 20, name, 0, NULL));
    return pool;
}

/* The same id, and the same numbers of allocations. */
static void two_pools_of_one_id(void)
{
    dragonMemoryPoolDescr_t pool = pool_called("guard-one"), other = pool_called("guard-two");
    dragonMemoryDescr_t ours = filled(&pool, 'o'), theirs = filled(&other, 't'), got;
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    uint64_t id = 0, other_id = 0;
    bool is_same = true;
    OK(dragon_memory_id(&ours, &id));
    OK(dragon_memory_id(&theirs, &other_id));
    CHECK(other_id == id);
    OK(dragon_memory_is(&ours, &theirs, &is_same));
    CHECK(!is_same);
    OK(dragon_memory_is(&ours, &ours, &is_same));
    CHECK(is_same);
    OK(dragon_channel_create(&channel, 9, &pool, NULL));
    sends = sends_to(&channel);
    receives = receives_from(&channel);
    IS(INVALID_ARGUMENT, send_by(&sends, &theirs, DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY));
    IS(NOT_IMPLEMENTED, send_by(&sends, &ours, &theirs));
    OK(send_by(&sends, &theirs, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP));
    got = received_by(&receives);
    CHECK(is_filled(&got, 't'));
    OK(dragon_memory_is(&ours, &got, &is_same));
    CHECK(!is_same);
    OK(dragon_memory_free(&got));
    CHECK(is_filled(&ours, 'o'));
    OK(dragon_memory_free(&ours));
    OK(dragon_channel_destroy(&channel));
    OK(dragon_memory_pool_destroy(&other));
    OK(dragon_memory_pool_destroy(&pool));
}

/* No pool has blocks as long as all of memory; who looked for a power of two that is as large would not end. */
static void a_pool_of_too_large_blocks(void)
{
    dragonMemoryPoolDescr_t pool;
    dragonMemoryPoolAttr_t attr;
    OK(dragon_memory_attr_init(&attr));
    attr.data_min_block_size = SIZE_MAX;
    /* Ends this program if it does not end. */
    alarm(30);
    IS(INVALID_ARGUMENT, dragon_memory_pool_create(&pool, SIZE_MAX, "guard-large", 0, &attr));
    alarm(0);
}

/* Less than no time is one try, and not without end. */
static void times_before_now(dragonMemoryPoolDescr_t *pool)
{
    const timespec_t times[] = {{0, 0}, {-1, 0}, {0, -5000000}, {-1, 999999999}};
    dragonChannelDescr_t channel;
    dragonChannelRecvh_t receives;
    dragonMessage_t message;
    size_t i;
    OK(dragon_channel_create(&channel, 7, pool, NULL));
    receives = receives_from(&channel);
    OK(dragon_channel_message_init(&message, NULL, NULL));
    /* Ends this program if it waits. */
    alarm(30);
    for (i = 0; i < sizeof times / sizeof *times; i++)
        IS(CHANNEL_EMPTY, dragon_chrecv_get_msg_blocking(&receives, &message, &times[i]));
    alarm(0);
    OK(dragon_channel_destroy(&channel));
}

/* An adapter with a stream, and a conversation that begins there. */
static dragonFLISendHandleDescr_t speaks_in(dragonFLIDescr_t *adapter, dragonChannelDescr_t *channels)
{
    dragonChannelDescr_t *streams[1] = {&channels[2]};
    dragonFLISendHandleDescr_t sends;
    OK(dragon_fli_create(adapter, &channels[0], &channels[1], NULL, 1, streams, false, NULL));
    OK(dragon_fli_open_send_handle(adapter, &sends, NULL, NULL, NULL));
    return sends;
}

/* Whether that is what comes next, with memory for all of it. */
static void comes(dragonFLIRecvHandleDescr_t *receives, const void *what, size_t length, uint64_t with)
{
    uint8_t *bytes;
    size_t got = length + 1;
    uint64_t arg = 0;
    most_memory = SIZE_MAX;
    OK(dragon_fli_recv_bytes(receives, 0, &got, &bytes, &arg, NULL));
    CHECK(got == length && memcmp(bytes, what, length) == 0 && arg == with);
    free(bytes);
}

/* It comes again, for all copies of the handle and in whatever way it is received. */
static void a_message_that_there_is_no_memory_for(dragonChannelDescr_t *channels)
{
    static const uint8_t sent[5][100] = {{'a'}, {'b'}, {'c'}, {'d'}, {'e'}};
    dragonFLIDescr_t adapter;
    dragonFLISendHandleDescr_t sends = speaks_in(&adapter, channels);
    dragonFLIRecvHandleDescr_t receives, copy;
    dragonMemoryDescr_t memory;
    uint8_t pad[sizeof sent[4]], *bytes;
    void *address;
    size_t length = 9, tried, i;
    uint64_t arg = 0;
    bool is_over = true;
    for (i = 0; i < 5; i++)
        OK(dragon_fli_send_bytes(&sends, sizeof sent[i], sent[i], 7 + i, false, NULL));
    OK(dragon_fli_send_bytes(&sends, 4, (const uint8_t *)"last", 12, false, NULL));
    OK(dragon_fli_close_send_handle(&sends, NULL));
    OK(dragon_fli_open_recv_handle(&adapter, &receives, NULL, NULL, NULL));
    /* Not even for the least, and not for all of it. */
    for (tried = 0; tried < sizeof sent[0]; tried += sizeof sent[0] - 1) {
        most_memory = tried;
        IS(INTERNAL_MALLOC_FAIL, dragon_fli_recv_bytes(&receives, 0, &length, &bytes, &arg, NULL));
        CHECK(length == 0 && bytes == NULL && arg == 0);
    }
    copy = receives;
    for (i = 0; i < 3; i++)
        comes(i < 2 ? &receives : &copy, sent[i], sizeof sent[i], 7 + i);
    most_memory = sizeof sent[3] - 1;
    IS(INTERNAL_MALLOC_FAIL, dragon_fli_recv_bytes(&copy, 0, &length, &bytes, &arg, NULL));
    OK(dragon_fli_recv_mem(&receives, &memory, &arg, NULL));
    OK(dragon_memory_get_ptr_info(&memory, &address, &length));
    CHECK(length == sizeof sent[3] && memcmp(address, sent[3], length) == 0 && arg == 10);
    OK(dragon_memory_free(&memory));
    IS(INTERNAL_MALLOC_FAIL, dragon_fli_recv_bytes(&receives, 0, &length, &bytes, &arg, NULL));
    OK(dragon_fli_recv_bytes_into(&copy, sizeof pad, &length, pad, &arg, NULL));
    CHECK(length == sizeof sent[4] && memcmp(pad, sent[4], length) == 0 && arg == 11);
    most_memory = 0;
    IS(INTERNAL_MALLOC_FAIL, dragon_fli_recv_bytes(&receives, 0, &length, &bytes, &arg, NULL));
    OK(dragon_fli_stream_received(&receives, &is_over));
    CHECK(!is_over);
    comes(&copy, "last", 4, 12);
    IS(EOT, dragon_fli_recv_bytes(&receives, 0, &length, &bytes, &arg, NULL));
    OK(dragon_fli_close_recv_handle(&receives, NULL));
    OK(dragon_fli_destroy(&adapter));
}

static dragonFLIRecvHandleDescr_t *other;

/* A minute passes, and another copy of the handle takes the message that is too long for the first room. */
static void takes_it(size_t bytes)
{
    uint8_t pad[100];
    size_t length;
    if (bytes < sizeof pad)
        return;
    before_memory = NULL;
    later = 60;
    OK(dragon_fli_recv_bytes_into(other, sizeof pad, &length, pad, NULL, NULL));
}

/* Who waits for the next one has no more time for that. */
static void a_message_that_another_copy_takes(dragonChannelDescr_t *channels)
{
    static const uint8_t sent[100] = {'a'};
    const timespec_t minute = {60, 0};
    dragonFLIDescr_t adapter;
    dragonFLISendHandleDescr_t sends = speaks_in(&adapter, channels);
    dragonFLIRecvHandleDescr_t receives, copy;
    uint8_t *bytes;
    size_t length;
    OK(dragon_fli_send_bytes(&sends, sizeof sent, sent, 7, false, NULL));
    OK(dragon_fli_open_recv_handle(&adapter, &receives, NULL, NULL, NULL));
    copy = receives;
    other = &copy;
    before_memory = takes_it;
    /* Ends this program if it waits. */
    alarm(30);
    IS(TIMEOUT, dragon_fli_recv_bytes(&receives, 0, &length, &bytes, NULL, &minute));
    alarm(0);
    CHECK(before_memory == NULL);
    later = 0;
    OK(dragon_fli_close_send_handle(&sends, NULL));
    OK(dragon_fli_close_recv_handle(&receives, NULL));
    OK(dragon_fli_destroy(&adapter));
}

#define LONG 300000

/* Takes everything that comes, and says how much it was; LONG + 4 if it is not what was sent. */
static void *hears(void *given)
{
    static uint8_t bytes[LONG + 4];
    static size_t total;
    dragonFLIRecvHandleDescr_t receives;
    size_t at;
    OK(dragon_fli_open_recv_handle((dragonFLIDescr_t *)given, &receives, NULL, NULL, NULL));
    OK(dragon_fli_recv_bytes_into(&receives, sizeof bytes, &total, bytes, NULL, NULL));
    for (at = 0; at < total; at++)
        if (bytes[at] != (at < LONG ? at % 251 : 255))
            total = sizeof bytes;
    OK(dragon_fli_close_recv_handle(&receives, NULL));
    return &total;
}

/* Nobody hears what is longer than a stream has room for. */
static void a_message_that_is_sent_in_parts(dragonChannelDescr_t *channels)
{
    static uint8_t bytes[LONG];
    const timespec_t soon = {0, 20000000};
    dragonFLIDescr_t adapter;
    dragonFLISendHandleDescr_t sends = speaks_in(&adapter, channels);
    pthread_t hearer;
    void *heard;
    size_t at;
    for (at = 0; at < LONG; at++)
        bytes[at] = (uint8_t)(at % 251);
    OK(dragon_fli_send_bytes(&sends, LONG, bytes, 7, false, &soon));
    CHECK(pthread_create(&hearer, NULL, hears, &adapter) == 0);
    OK(dragon_fli_send_bytes(&sends, 3, (const uint8_t *)"\377\377\377", 7, false, NULL));
    OK(dragon_fli_close_send_handle(&sends, NULL));
    CHECK(pthread_join(hearer, &heard) == 0 && *(size_t *)heard == LONG + 3);
    OK(dragon_fli_destroy(&adapter));
}

static void conversations(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channels[3];
    int i;
    for (i = 0; i < 3; i++)
        OK(dragon_channel_create(&channels[i], 20 + (uint64_t)i, pool, NULL));
    a_message_that_there_is_no_memory_for(channels);
    a_message_that_another_copy_takes(channels);
    a_message_that_is_sent_in_parts(channels);
    for (i = 0; i < 3; i++)
        OK(dragon_channel_destroy(&channels[i]));
}

/* Neither a reset nor the end waits until they stop. */
static void a_channel_that_others_go_on_sending_to(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonMemoryDescr_t memory;
    OK(dragon_channel_create(&channel, 40, pool, NULL));
    sends = sends_to(&channel);
    OK(dragon_memory_alloc(&memory, pool, 8));
    OK(send_by(&sends, &memory, NULL));
    refills = 3000;
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLRESET, NULL, NULL));
    CHECK(refills > 0);
    OK(send_by(&sends, &memory, NULL));
    OK(dragon_channel_destroy(&channel));
    CHECK(refills > 0);
    refills = 0;
    OK(dragon_memory_free(&memory));
}

int main(void)
{
    dragonMemoryPoolDescr_t pool = pool_called("guard");
    a_channel_of_other_numbers(&pool);
    a_message_that_is_none(&pool);
    memory_that_was_lent(&pool);
    what_came_before(&pool);
    a_place_that_is_gone(&pool);
    a_place_in_what_is_sent(&pool);
    a_part_of_memory(&pool);
    times_before_now(&pool);
    a_channel_that_others_go_on_sending_to(&pool);
    conversations(&pool);
    OK(dragon_memory_pool_destroy(&pool));
    two_pools_of_one_id();
    a_pool_of_too_large_blocks();
    printf("all is right\n");
    return 0;
}
