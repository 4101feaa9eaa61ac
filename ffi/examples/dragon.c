/* A program in the words of Dragon's core, over Umbra: memory, messages in every way that they can go, a set of channels, and
 * a text that is streamed to a child in every mode.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dragon_check.h"

#define MODES 5
#define PATIENCE 60

static const char text[] = "a text that is said in chunks that grow, and read in others";

/* Which channel a conversation is begun with: of modes 2 and 3 the sender and the receiver bring one. */
static dragonChannelDescr_t *brings(int mode, int sends, dragonChannelDescr_t *own)
{
    if (mode == 4)
        return STREAM_CHANNEL_IS_MAIN_FOR_1_1_CONNECTION;
    return mode == 2 + !sends ? own : NULL;
}

/* Reads the text in each mode, and says through a channel what it has read. */
static int child(int from_parent)
{
    const timespec_t patience = {PATIENCE, 0};
    dragonMemoryPoolDescr_t pool;
    dragonChannelDescr_t answers, own;
    dragonChannelSendh_t sends;
    dragonSerial_t serial = get(from_parent);
    int mode;
    OK(dragon_memory_pool_attach(&pool, &serial));
    dragon_memory_pool_serial_free(&serial);
    serial = get(from_parent);
    OK(dragon_channel_attach(&serial, &answers));
    dragon_channel_serial_free(&serial);
    OK(dragon_channel_create(&own, 99, &pool, NULL));
    OK(dragon_channel_sendh(&answers, &sends, NULL));
    OK(dragon_chsend_open(&sends));
    for (mode = 0; mode < MODES; mode++) {
        dragonFLIDescr_t adapter;
        dragonFLIRecvHandleDescr_t receives;
        dragonMemoryDescr_t memory;
        dragonMessage_t message;
        size_t got = 0, length = 0, step;
        void *address;
        char *at, spare;
        serial = get(from_parent);
        OK(dragon_fli_attach(&serial, &pool, &adapter));
        dragon_fli_serial_free(&serial);
        OK(dragon_fli_open_recv_handle(&adapter, &receives, brings(mode, 0, &own), NULL, &patience));
        OK(dragon_memory_alloc(&memory, &pool, sizeof text));
        OK(dragon_memory_get_pointer(&memory, &address));
        at = address;
        for (step = 1; got < sizeof text; step++) {
            size_t wanted = step < sizeof text - got ? step : sizeof text - got;
            uint8_t *bytes;
            uint64_t arg = 0;
            if (step % 2) {
                OK(dragon_fli_recv_bytes_into(&receives, wanted, &length, (uint8_t *)at + got, &arg, &patience));
            } else {
                OK(dragon_fli_recv_bytes(&receives, wanted, &length, &bytes, &arg, &patience));
                memcpy(at + got, bytes, length);
                free(bytes);
            }
            CHECK(length == wanted && arg == 7);
            got += length;
        }
        length = 9;
        IS(EOT, dragon_fli_recv_bytes_into(&receives, 1, &length, (uint8_t *)&spare, NULL, &patience));
        CHECK(length == 0);
        OK(dragon_fli_close_recv_handle(&receives, &patience));
        OK(dragon_channel_message_init(&message, &memory, NULL));
        message._attr.hints = UINT64_MAX;
        OK(dragon_chsend_send_msg(&sends, &message, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP, &patience));
        OK(dragon_channel_message_destroy(&message, false));
        OK(dragon_fli_detach(&adapter));
    }
    OK(dragon_chsend_close(&sends));
    OK(dragon_channel_destroy(&own));
    OK(dragon_channel_detach(&answers));
    OK(dragon_memory_pool_detach(&pool));
    return 0;
}

/* The parent's side of that. */
static void stream_to(int to_child, dragonMemoryPoolDescr_t *pool, dragonChannelDescr_t *answers)
{
    const timespec_t patience = {PATIENCE, 0};
    dragonChannelDescr_t channels[4], *streams[2];
    dragonChannelRecvh_t receives;
    dragonSerial_t serial;
    int mode, i;
    for (i = 0; i < 4; i++)
        OK(dragon_channel_create(&channels[i], 10 + (uint64_t)i, pool, NULL));
    streams[0] = &channels[2];
    streams[1] = &channels[3];
    OK(dragon_channel_recvh(answers, &receives, NULL));
    OK(dragon_chrecv_open(&receives));
    for (mode = 0; mode < MODES; mode++) {
        dragonFLIDescr_t adapter;
        dragonFLISendHandleDescr_t sends;
        dragonMessage_t message;
        size_t sent = 0, step, size = 0;
        uint64_t number = 0;
        void *address;
        bool is_buffered = true;
        /* Nominal, buffered, the sender brings a stream, the receiver does, the main channel is the stream. */
        if (mode == 0)
            OK(dragon_fli_create(&adapter, &channels[0], &channels[1], pool, 2, streams, false, NULL));
        else if (mode == 3)
            OK(dragon_fli_create(&adapter, NULL, &channels[1], pool, 0, NULL, false, NULL));
        else
            OK(dragon_fli_create(&adapter, &channels[0], NULL, pool, 0, NULL, mode == 1, NULL));
        OK(dragon_fli_is_buffered(&adapter, &is_buffered));
        CHECK(is_buffered == (mode == 1));
        if (mode == 0) {
            OK(dragon_fli_get_available_streams(&adapter, &number, NULL));
            CHECK(number == 2);
            IS(EMPTY, dragon_fli_poll(&adapter, NULL));
        }
        OK(dragon_fli_serialize(&adapter, &serial));
        put(to_child, &serial);
        OK(dragon_fli_serial_free(&serial));
        OK(dragon_fli_open_send_handle(&adapter, &sends, brings(mode, 1, &channels[3]), NULL, &patience));
        IS(INVALID_ARGUMENT, dragon_fli_send_bytes(&sends, 1, (const uint8_t *)text, UINT64_MAX - 255, false, NULL));
        for (step = 1; sent < sizeof text; sent += step, step++) {
            step = step < sizeof text - sent ? step : sizeof text - sent;
            OK(dragon_fli_send_bytes(&sends, step, (const uint8_t *)text + sent, 7, mode == 1 || step % 3 == 0, &patience));
        }
        OK(dragon_fli_close_send_handle(&sends, &patience));
        IS(INVALID_ARGUMENT, dragon_fli_close_send_handle(&sends, &patience));
        OK(dragon_channel_message_init(&message, NULL, NULL));
        OK(dragon_chrecv_get_msg_blocking(&receives, &message, &patience));
        OK(dragon_channel_message_get_ptr_info(&message, &address, &size));
        CHECK(size == sizeof text && memcmp(address, text, size) == 0 && message._attr.hints == UINT64_MAX);
        OK(dragon_channel_message_destroy(&message, true));
        OK(dragon_fli_destroy(&adapter));
    }
    IS(INVALID_ARGUMENT, dragon_fli_create(&(dragonFLIDescr_t){0}, NULL, NULL, pool, 0, NULL, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_create(&(dragonFLIDescr_t){0}, &channels[0], NULL, pool, 2, streams, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_create(&(dragonFLIDescr_t){0}, &channels[0], &channels[1], pool, 2, streams, true, NULL));
    OK(dragon_chrecv_close(&receives));
    for (i = 0; i < 4; i++)
        OK(dragon_channel_destroy(&channels[i]));
}

static void memory(dragonMemoryPoolDescr_t *pool)
{
    const timespec_t brief = {0, 20000000}, now = {0, 0};
    dragonMemoryDescr_t mem, part, other, none;
    dragonMemorySerial_t serial;
    dragonMemoryPoolDescr_t found;
    uint64_t id = 0, total = 0, left = 0;
    size_t size = 0, length = SIZE_MAX;
    void *address, *there;
    bool same = true;
    int exists = 0;
    dragonMemoryPoolAllocations_t allocs;
    IS(DYNHEAP_REQUESTED_SIZE_TOO_LARGE, dragon_memory_alloc(&mem, pool, SIZE_MAX));
    OK(dragon_memory_alloc_type(&mem, pool, 100, (dragonMemoryAllocationType_t)9001));
    OK(dragon_memory_pool_get_type_allocations(pool, (dragonMemoryAllocationType_t)9001, &allocs));
    OK(dragon_memory_id(&mem, &id));
    CHECK(allocs.nallocs == 1 && allocs.ids[0] == id && allocs.types[0] == 9001);
    OK(dragon_memory_pool_allocations_destroy(&allocs));
    OK(dragon_memory_get_ptr_info(&mem, &address, &size));
    CHECK(size == 100);
    memset(address, 'm', size);
    IS(INVALID_ARGUMENT, dragon_memory_descr_clone(&part, &mem, 1, &length));
    IS(INVALID_ARGUMENT, dragon_memory_descr_clone(&part, &mem, 101, NULL));
    OK(dragon_memory_descr_clone(&part, &mem, 48, NULL));
    OK(dragon_memory_descr_clone(&part, &part, 2, NULL));
    OK(dragon_memory_get_ptr_info(&part, &there, &size));
    CHECK(size == 50 && there == (char *)address + 50);
    OK(dragon_memory_clear(&part, 10, 20));
    CHECK(((char *)address)[59] == 'm' && ((char *)address)[60] == 0 && ((char *)address)[70] == 'm');
    IS(INVALID_ARGUMENT, dragon_memory_clear(&part, 10, 51));
    IS(INVALID_ARGUMENT, dragon_memory_modify_size(&part, 51, NULL));
    OK(dragon_memory_modify_size(&part, 5, NULL));
    OK(dragon_memory_is(&mem, &part, &same));
    CHECK(same);
    OK(dragon_memory_equal(&mem, &part, &same));
    CHECK(!same);
    OK(dragon_memory_copy_to_pool(&part, &other, pool, &now));
    OK(dragon_memory_equal(&other, &part, &same));
    CHECK(same);
    IS(INVALID_ARGUMENT, dragon_memory_copy(&mem, &other));
    OK(dragon_memory_free(&other));

    /* A view keeps its place and length on the way; what was cut or freed meanwhile is refused. */
    OK(dragon_memory_serialize(&serial, &part));
    CHECK(serial.len <= dragon_memory_max_serialized_len());
    OK(dragon_memory_attach(&other, &serial));
    OK(dragon_memory_get_ptr_info(&other, &there, &size));
    CHECK(size == 5 && memcmp(there, (char *)address + 50, 5) == 0);
    OK(dragon_memory_detach(&other));
    /* What was not attached has no use of the pool to give up. */
    OK(dragon_memory_descr_clone(&other, &mem, 0, NULL));
    OK(dragon_memory_detach(&other));
    OK(dragon_memory_get_ptr_info(&mem, &there, &size));
    for (length = 0; length < serial.len; length += 7) {
        dragonMemorySerial_t cut = {length, serial.data};
        IS(INVALID_ARGUMENT, dragon_memory_attach(&other, &cut));
    }
    OK(dragon_memory_id(&mem, &id));
    OK(dragon_memory_from_id(pool, id, &other));
    OK(dragon_memory_pool_allocation_exists(&other, &exists));
    CHECK(exists == 1);
    OK(dragon_memory_free(&part));
    IS(INVALID_ARGUMENT, dragon_memory_free(&mem));
    IS(INVALID_ARGUMENT, dragon_memory_get_pointer(&mem, &there));
    IS(KEY_NOT_FOUND, dragon_memory_from_id(pool, id, &other));
    IS(OBJECT_DESTROYED, dragon_memory_attach(&other, &serial));
    OK(dragon_memory_serial_free(&serial));

    OK(dragon_memory_alloc(&none, pool, 0));
    OK(dragon_memory_get_size(&none, &size));
    CHECK(size == 0);
    OK(dragon_memory_modify_size(&none, 10, &now));
    OK(dragon_memory_free(&none));
    OK(dragon_memory_pool_get_total_size(pool, &total));
    OK(dragon_memory_pool_get_free_size(pool, &left));
    CHECK(total == left);
    OK(dragon_memory_alloc(&mem, pool, total));
    IS(DYNHEAP_REQUESTED_SIZE_NOT_AVAILABLE, dragon_memory_alloc(&other, pool, 1));
    IS(TIMEOUT, dragon_memory_alloc_blocking(&other, pool, 1, &brief));
    OK(dragon_memory_get_pool(&mem, &found));
    OK(dragon_memory_pool_muid(&found, &id));
    CHECK(id == 42);
    OK(dragon_memory_free(&mem));
}

/* Every cut and every change of a byte is refused, by whoever attaches. */
static void damage(dragonMemoryPoolDescr_t *pool)
{
    dragonChannelDescr_t main_ch, channel;
    dragonMemoryDescr_t mem, found;
    dragonFLIDescr_t adapter, attached;
    dragonMemoryPoolDescr_t other;
    dragonSerial_t whole[4];
    size_t length;
    int which;
    OK(dragon_memory_alloc(&mem, pool, 10));
    OK(dragon_channel_create(&main_ch, 5, pool, NULL));
    OK(dragon_fli_create(&adapter, &main_ch, NULL, pool, 0, NULL, false, NULL));
    OK(dragon_memory_pool_serialize(&whole[0], pool));
    OK(dragon_memory_serialize(&whole[1], &mem));
    OK(dragon_channel_serialize(&main_ch, &whole[2]));
    OK(dragon_fli_serialize(&adapter, &whole[3]));
    for (which = 0; which < 4; which++) {
        for (length = 0; length < 2 * whole[which].len; length++) {
            /* First cut to this length, then with this byte changed. */
            size_t kept = length < whole[which].len ? length : whole[which].len;
            dragonSerial_t bad = {kept, malloc(kept + 1)};
            CHECK(bad.data != NULL);
            memcpy(bad.data, whole[which].data, kept);
            if (length >= whole[which].len)
                bad.data[length - whole[which].len] ^= (uint8_t)(1 << length % 8);
            if (which == 0)
                IS(INVALID_ARGUMENT, dragon_memory_pool_attach(&other, &bad));
            else if (which == 1)
                IS(INVALID_ARGUMENT, dragon_memory_attach(&found, &bad));
            else if (which == 2)
                IS(INVALID_ARGUMENT, dragon_channel_attach(&bad, &channel));
            else
                IS(INVALID_ARGUMENT, dragon_fli_attach(&bad, NULL, &attached));
            free(bad.data);
        }
        OK(dragon_memory_serial_free(&whole[which]));
    }
    OK(dragon_fli_destroy(&adapter));
    OK(dragon_channel_destroy(&main_ch));
    OK(dragon_memory_free(&mem));
}

/* What is received of this, sent to that destination, and how it is counted. */
static void bounce(dragonChannelSendh_t *sends, dragonChannelRecvh_t *receives, size_t bytes, dragonMemoryDescr_t *dest,
                   dragonMemoryDescr_t *pad)
{
    dragonMemoryPoolDescr_t *pool = &sends->_ch._pool;
    dragonMemoryDescr_t mem;
    dragonMessageAttr_t attr, got;
    dragonMessage_t message, received;
    uint64_t count = 9;
    size_t size = 0;
    void *address;
    OK(dragon_memory_alloc(&mem, pool, bytes));
    OK(dragon_memory_get_pointer(&mem, &address));
    memset(address, 'b', bytes);
    OK(dragon_channel_message_attr_init(&attr));
    attr.hints = 42;
    attr.clientid = UINT64_MAX;
    OK(dragon_channel_message_init(&message, &mem, &attr));
    OK(dragon_chsend_send_msg(sends, &message, dest, NULL));
    OK(dragon_channel_message_count(&sends->_ch, &count));
    CHECK(count == 1);
    OK(dragon_channel_message_init(&received, NULL, NULL));
    OK(dragon_chrecv_peek_msg(receives, &received));
    OK(dragon_channel_message_get_ptr_info(&received, &address, &size));
    CHECK(size == bytes && (bytes == 0 || *(char *)address == 'b'));
    if (!received._mem._is_lent)
        OK(dragon_channel_message_destroy(&received, true));
    OK(dragon_channel_message_init(&received, pad, NULL));
    OK(dragon_chrecv_get_msg(receives, &received));
    OK(dragon_channel_message_getattr(&received, &got));
    CHECK(got.hints == 42 && got.clientid == UINT64_MAX);
    OK(dragon_channel_message_get_ptr_info(&received, &address, &size));
    CHECK(size == bytes && (bytes == 0 || ((char *)address)[bytes - 1] == 'b'));
    if (pad == NULL && dest != DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY)
        OK(dragon_channel_message_destroy(&received, true));
    else if (pad == NULL)
        IS(INVALID_ARGUMENT, dragon_channel_message_destroy(&received, true));
    /* What was handed over is the sender's no more. */
    if (dest != DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP)
        OK(dragon_memory_free(&mem));
    else if (bytes != 0)
        IS(INVALID_ARGUMENT, dragon_memory_free(&mem));
}

static void holds_nothing(dragonMemoryPoolDescr_t *pool)
{
    dragonMemoryPoolAllocations_t allocs;
    OK(dragon_memory_pool_get_allocations(pool, &allocs));
    CHECK(allocs.nallocs == 0);
    OK(dragon_memory_pool_allocations_destroy(&allocs));
}

/* Memory of another pool than the channel's is copied there, and is gone where it was; the first ones of two pools have one id. */
static void handed_over_across_pools(void)
{
    dragonMemoryPoolDescr_t here, there;
    dragonChannelDescr_t channel;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t mem;
    dragonMessage_t message, received;
    char name[30];
    snprintf(name, sizeof name, "c-here-%ld", (long)getpid());
    OK(dragon_memory_pool_create(&here, 1 << 20, name, 51, NULL));
    snprintf(name, sizeof name, "c-there-%ld", (long)getpid());
    OK(dragon_memory_pool_create(&there, 1 << 20, name, 52, NULL));
    OK(dragon_channel_create(&channel, 53, &here, NULL));
    OK(dragon_channel_sendh(&channel, &sends, NULL));
    OK(dragon_channel_recvh(&channel, &receives, NULL));
    OK(dragon_chsend_open(&sends));
    OK(dragon_chrecv_open(&receives));
    OK(dragon_memory_alloc(&mem, &there, 100000));
    OK(dragon_channel_message_init(&message, &mem, NULL));
    OK(dragon_chsend_send_msg(&sends, &message, DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP, NULL));
    holds_nothing(&there);
    OK(dragon_channel_message_init(&received, NULL, NULL));
    OK(dragon_chrecv_get_msg(&receives, &received));
    OK(dragon_channel_message_destroy(&received, true));
    OK(dragon_chsend_close(&sends));
    OK(dragon_chrecv_close(&receives));
    OK(dragon_channel_destroy(&channel));
    OK(dragon_memory_pool_destroy(&here));
    OK(dragon_memory_pool_destroy(&there));
}

/* What is not sent has not been written over what was in its place, though that be a part of it. */
static void unsent(dragonChannelSendh_t *full, dragonMemoryPoolDescr_t *pool)
{
    dragonMemoryDescr_t mem, from, dest;
    dragonMessage_t message;
    uint8_t *bytes;
    size_t part = 200;
    void *start;
    int i;
    OK(dragon_memory_alloc(&mem, pool, 300));
    OK(dragon_memory_get_pointer(&mem, &start));
    bytes = (uint8_t *)start;
    for (i = 0; i < 300; i++)
        bytes[i] = (uint8_t)i;
    OK(dragon_memory_descr_clone(&from, &mem, 0, &part));
    OK(dragon_memory_descr_clone(&dest, &mem, 100, NULL));
    OK(dragon_channel_message_init(&message, &from, NULL));
    IS(CHANNEL_FULL, dragon_chsend_send_msg(full, &message, &dest, &DRAGON_CHANNEL_TRYONCE_TIMEOUT));
    for (i = 0; i < 300; i++)
        CHECK(bytes[i] == (uint8_t)i);
    OK(dragon_memory_free(&mem));
}

static void messages(dragonMemoryPoolDescr_t *pool)
{
    static const size_t sizes[] = {0, 1, 255, 256, 257, 5000};
    const timespec_t brief = {0, 1};
    dragonChannelDescr_t channel;
    dragonChannelAttr_t attr;
    dragonChannelSendh_t sends;
    dragonChannelRecvh_t receives;
    dragonMemoryDescr_t pad, mem, small;
    dragonMessage_t message, received;
    uint64_t number = 0;
    size_t i;
    OK(dragon_channel_attr_init(&attr));
    attr.bytes_per_msg_block = 255;
    IS(CHANNEL_BLOCKSIZE_BELOW_REQUIRED_MINIMUM, dragon_channel_create(&channel, 7, pool, &attr));
    attr.bytes_per_msg_block = 256;
    attr.capacity = 0;
    IS(CHANNEL_CAPACITY_BELOW_REQUIRED_MINIMUM, dragon_channel_create(&channel, 7, pool, &attr));
    attr.capacity = 2;
    OK(dragon_channel_create(&channel, 7, pool, &attr));
    OK(dragon_channel_sendh(&channel, &sends, NULL));
    OK(dragon_channel_recvh(&channel, &receives, NULL));
    OK(dragon_channel_message_init(&received, NULL, NULL));
    IS(CHANNEL_RECV_NOT_OPENED, dragon_chrecv_get_msg(&receives, &received));
    IS(CHANNEL_SEND_NOT_OPENED, dragon_chsend_send_msg(&sends, &received, NULL, NULL));
    OK(dragon_chsend_open(&sends));
    IS(CHANNEL_SEND_ALREADY_OPENED, dragon_chsend_open(&sends));
    OK(dragon_chrecv_open(&receives));
    IS(CHANNEL_RECV_ALREADY_OPENED, dragon_chrecv_open(&receives));
    IS(CHANNEL_SEND_MESSAGE_MEMORY_NULL, dragon_chsend_send_msg(&sends, &received, NULL, NULL));
    IS(CHANNEL_EMPTY, dragon_chrecv_get_msg(&receives, &received));
    IS(TIMEOUT, dragon_chrecv_get_msg_blocking(&receives, &received, &brief));
    IS(CHANNEL_EMPTY, dragon_chrecv_pop_msg(&receives));
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dragonMemoryDescr_t dest, nowhere;
        OK(dragon_memory_alloc(&pad, pool, 5000));
        OK(dragon_memory_alloc(&nowhere, pool, 0));
        bounce(&sends, &receives, sizes[i], NULL, NULL);
        bounce(&sends, &receives, sizes[i], NULL, &pad);
        bounce(&sends, &receives, sizes[i], &nowhere, NULL);
        bounce(&sends, &receives, sizes[i], DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP, NULL);
        bounce(&sends, &receives, sizes[i], DRAGON_CHANNEL_SEND_TRANSFER_OWNERSHIP, &pad);
        if (sizes[i] != 0) {
            bounce(&sends, &receives, sizes[i], DRAGON_CHANNEL_SEND_NO_COPY_READ_ONLY, NULL);
            OK(dragon_memory_alloc(&dest, pool, sizes[i]));
            bounce(&sends, &receives, sizes[i], &dest, NULL);
        }
        OK(dragon_memory_free(&pad));
    }

    /* Full; then too small a place, in which case the message stays the first. */
    OK(dragon_memory_alloc(&mem, pool, 300));
    OK(dragon_memory_alloc(&small, pool, 299));
    OK(dragon_channel_message_init(&message, &mem, NULL));
    IS(INVALID_ARGUMENT, dragon_chsend_send_msg(&sends, &message, &small, NULL));
    OK(dragon_chsend_send_msg(&sends, &message, NULL, NULL));
    OK(dragon_chsend_send_msg(&sends, &message, NULL, NULL));
    IS(CHANNEL_FULL, dragon_chsend_send_msg(&sends, &message, NULL, &DRAGON_CHANNEL_TRYONCE_TIMEOUT));
    IS(TIMEOUT, dragon_chsend_send_msg(&sends, &message, NULL, &brief));
    unsent(&sends, pool);
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLFULL, NULL, NULL));
    OK(dragon_channel_message_init(&received, &small, NULL));
    IS(CHANNEL_RECV_INVALID_DESTINATION_MEMORY, dragon_chrecv_get_msg(&receives, &received));
    OK(dragon_channel_get_attr(&channel, &attr));
    CHECK(attr.num_msgs == 2 && attr.num_avail_blocks == 0 && attr.c_uid == 7 && attr.bytes_per_msg_block == 256);
    OK(dragon_chrecv_pop_msg(&receives));
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLRESET, NULL, NULL));
    OK(dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLSIZE, NULL, &number));
    CHECK(number == 0);
    IS(INVALID_ARGUMENT, dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLSIZE, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, 0, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, -30000, NULL, NULL));
    IS(TIMEOUT, dragon_channel_poll(&channel, DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLIN, &brief, NULL));
    OK(dragon_memory_free(&mem));
    OK(dragon_memory_free(&small));
    OK(dragon_channel_destroy(&channel));
    IS(INVALID_ARGUMENT, dragon_channel_destroy(&channel));
    holds_nothing(pool);
}

static void sets_and_counts(dragonMemoryPoolDescr_t *pool)
{
    const timespec_t brief = {0, 20000000}, now = {0, 0};
    dragonChannelDescr_t channels[3], semaphore, *list[3], *told = NULL;
    dragonChannelSetDescr_t set;
    dragonChannelSetEventNotification_t *event = NULL;
    dragonChannelSendh_t sends;
    dragonMemoryDescr_t mem;
    dragonMessage_t message;
    dragonChannelAttr_t attr;
    timespec_t wait = brief;
    uint64_t number = 0;
    int i, count = 0;
    OK(dragon_memory_alloc(&mem, pool, 8));
    OK(dragon_channel_message_init(&message, &mem, NULL));
    for (i = 0; i < 3; i++) {
        OK(dragon_channel_create(&channels[i], 20 + (uint64_t)i, pool, NULL));
        list[i] = &channels[i];
    }
    OK(dragon_channelset_create(list, 3, DRAGON_CHANNEL_POLLIN, pool, NULL, &set));
    IS(TIMEOUT, dragon_channelset_poll(&set, DRAGON_IDLE_WAIT, &wait, NULL, NULL, &event));
    CHECK(event == NULL);
    for (i = 2; i >= 0; i--) {
        OK(dragon_channel_sendh(&channels[i], &sends, NULL));
        OK(dragon_chsend_open(&sends));
        OK(dragon_chsend_send_msg(&sends, &message, NULL, NULL));
        OK(dragon_channelset_poll(&set, DRAGON_IDLE_WAIT, &wait, NULL, NULL, &event));
        CHECK(event->channel_idx == i && event->revent == DRAGON_CHANNEL_POLLIN);
        free(event);
        OK(dragon_channel_poll(&channels[i], DRAGON_IDLE_WAIT, DRAGON_CHANNEL_POLLRESET, NULL, NULL));
    }
    OK(dragon_channelset_get_channels(&set, &told, &count));
    CHECK(count == 3 && told[1]._channel == channels[1]._channel);
    free(told);
    OK(dragon_channelset_set_event_mask(&set, DRAGON_CHANNEL_POLLOUT));
    OK(dragon_channelset_poll(&set, DRAGON_IDLE_WAIT, &wait, NULL, NULL, &event));
    free(event);
    OK(dragon_channelset_destroy(&set));
    for (i = 0; i < 3; i++)
        OK(dragon_channel_destroy(&channels[i]));
    OK(dragon_memory_free(&mem));

    OK(dragon_channel_attr_init(&attr));
    attr.semaphore = attr.bounded = true;
    attr.initial_sem_value = 2;
    OK(dragon_channel_create(&semaphore, 30, pool, &attr));
    IS(INVALID_ARGUMENT, dragon_channel_sendh(&semaphore, &sends, NULL));
    IS(INVALID_VALUE, dragon_channel_poll(&semaphore, DRAGON_IDLE_WAIT, DRAGON_SEMAPHORE_V, &now, NULL));
    OK(dragon_channel_poll(&semaphore, DRAGON_IDLE_WAIT, DRAGON_SEMAPHORE_P, &now, &number));
    CHECK(number == 2);
    OK(dragon_channel_poll(&semaphore, DRAGON_IDLE_WAIT, DRAGON_SEMAPHORE_P, &now, &number));
    CHECK(number == 1);
    IS(TIMEOUT, dragon_channel_poll(&semaphore, DRAGON_IDLE_WAIT, DRAGON_SEMAPHORE_P, &now, &number));
    OK(dragon_channel_poll(&semaphore, DRAGON_IDLE_WAIT, DRAGON_SEMAPHORE_Z, NULL, NULL));
    OK(dragon_channel_destroy(&semaphore));
}

/* Nothing, to everything. */
static void nothing(void)
{
    IS(INVALID_ARGUMENT, dragon_memory_attr_init(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_attr_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_get_attr(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_create(NULL, 0, NULL, 0, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_detach(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_serialize(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_serial_free(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_attach(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_descr_clone(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_muid(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_alloc(NULL, NULL, 1));
    IS(INVALID_ARGUMENT, dragon_memory_get_pointer(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_get_size(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_get_pool(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_free(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_id(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_from_id(NULL, 0, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_descr_clone(NULL, NULL, 0, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_descr_move(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_descr_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_serialize(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_attach(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_detach(NULL));
    IS(INVALID_ARGUMENT, dragon_memory_modify_size(NULL, 0, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_copy(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_copy_to_pool(NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_equal(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_is(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_clear(NULL, 0, 0));
    IS(INVALID_ARGUMENT, dragon_channel_attr_init(NULL));
    IS(INVALID_ARGUMENT, dragon_channel_create(NULL, 0, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_get_attr(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_channel_detach(NULL));
    IS(INVALID_ARGUMENT, dragon_channel_serialize(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_attach(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_get_uid(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_descr_clone(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_get_pool(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_sendh(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_recvh(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_chsend_open(NULL));
    IS(INVALID_ARGUMENT, dragon_chsend_close(NULL));
    IS(INVALID_ARGUMENT, dragon_chsend_send_msg(NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_chrecv_open(NULL));
    IS(INVALID_ARGUMENT, dragon_chrecv_close(NULL));
    IS(INVALID_ARGUMENT, dragon_chrecv_get_msg(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_chrecv_peek_msg(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_chrecv_pop_msg(NULL));
    IS(INVALID_ARGUMENT, dragon_channel_message_init(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_message_destroy(NULL, true));
    IS(INVALID_ARGUMENT, dragon_channel_message_get_mem(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_message_count(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channel_poll(NULL, DRAGON_IDLE_WAIT, 1, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channelset_create(NULL, 1, 1, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channelset_poll(NULL, DRAGON_IDLE_WAIT, NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_channelset_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_fli_create(NULL, NULL, NULL, NULL, 0, NULL, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_task_create(NULL, NULL, NULL, NULL, NULL, 0, NULL, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_destroy(NULL));
    IS(INVALID_ARGUMENT, dragon_fli_detach(NULL));
    IS(INVALID_ARGUMENT, dragon_fli_serialize(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_attach(NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_poll(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_full(NULL));
    IS(INVALID_ARGUMENT, dragon_fli_open_send_handle(NULL, NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_open_recv_handle(NULL, NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_close_send_handle(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_close_recv_handle(NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_send_bytes(NULL, 0, NULL, 0, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_send_mem(NULL, NULL, 0, false, false, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_recv_bytes(NULL, 0, NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_recv_bytes_into(NULL, 0, NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_recv_mem(NULL, NULL, NULL, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_create_writable_fd(NULL, NULL, false, 0, 0, NULL));
    IS(INVALID_ARGUMENT, dragon_fli_create_readable_fd(NULL, NULL, NULL));
}

int main(void)
{
    dragonMemoryPoolDescr_t pool, again;
    dragonChannelDescr_t answers;
    dragonSerial_t serial;
    char name[30];
    int to_child[2], status = 1;
    pid_t pid;

    /* The child attaches for itself: it is made before there is anything. */
    CHECK(pipe(to_child) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(to_child[1]);
        return child(to_child[0]);
    }
    close(to_child[0]);

    snprintf(name, sizeof name, "c-dragon-%ld", (long)getpid());
    handed_over_across_pools();
    OK(dragon_memory_pool_create(&pool, 1 << 20, name, 42, NULL));
    IS(MEMORY_ERRNO, dragon_memory_pool_create(&again, 1 << 20, name, 43, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_pool_create(&again, 1 << 20, "", 43, NULL));
    /* The id of a pool that lives is no other one's. */
    IS(INVALID_ARGUMENT, dragon_memory_pool_create(&again, 1 << 20, "umbra-c-twin", 42, NULL));
    OK(dragon_memory_pool_serialize(&serial, &pool));
    put(to_child[1], &serial);
    OK(dragon_memory_pool_serial_free(&serial));
    OK(dragon_channel_create(&answers, 1, &pool, NULL));
    OK(dragon_channel_serialize(&answers, &serial));
    put(to_child[1], &serial);
    OK(dragon_channel_serial_free(&serial));
    stream_to(to_child[1], &pool, &answers);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    OK(dragon_channel_destroy(&answers));
    memory(&pool);
    damage(&pool);
    messages(&pool);
    sets_and_counts(&pool);
    nothing();
    OK(dragon_memory_pool_destroy(&pool));
    IS(INVALID_ARGUMENT, dragon_memory_pool_destroy(&pool));
    printf("all is right\n");
    return 0;
}
