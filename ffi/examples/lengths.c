/* Lists, bytes and buffers that are nowhere, that lie where no number can, or that are longer than all memory: each is refused by
 * its code, or is as empty as it says. */
#include "check.h"

static umbra_pool pool, of_messages;
static umbra_allocation allocation;
static umbra_channel channel, pooled;
static umbra_stream stream;
static umbra_sender sender;
static umbra_receiver receiver;
static umbra_cache cache, interrupted;
static umbra_shared_cache shared;
static umbra_cached_memory places, abandoned;
static umbra_stencil stencil, stopped, counted;
static umbra_station station;
static umbra_member member;
static umbra_fabric fabric;
static struct umbra_stream_options plain;
static struct umbra_mesh mesh;
static int descriptor;
static uint64_t group;
static const uint64_t input = 1;
static unsigned char reference[512];
static size_t reference_length;
/* What is long enough for all that is asked for. */
static uint64_t room[1024];

/* A message that is longer than a block. */
static unsigned char longer[3000];

/* What calls say that nobody looks at. */
static uint64_t other, number;
static size_t length;
static void *address;

/* Takes back what was made after all. */
static int undone(int code, int (*undo)(uint64_t))
{
    if (code == 0)
        must(undo(other));
    return code;
}

/* A function that is told of so many things from an address on. */
#define SAYS(name, answer) \
    static int name(void *at, size_t count) \
    { \
        return answer; \
    }

/* ---- what is handed in ---- */

SAYS(pool_by, umbra_pool_attach_reference(at, count, &other))
SAYS(shared_pool_by, umbra_pool_attach_shared(at, count, &other))
SAYS(far_pool_by, umbra_pool_attach_anywhere(at, count, 0, 0, &other))
SAYS(channel_by, umbra_channel_attach_reference(at, count, &other))
SAYS(far_channel_by, umbra_channel_attach_anywhere(at, count, 0, 0, &other))
SAYS(stream_by, umbra_stream_attach_reference(at, count, NULL, 0, &other))
SAYS(far_stream_by, umbra_stream_attach_anywhere(at, count, NULL, 0, 0, 0, &other))
SAYS(host_by, umbra_reference_host(at, count, &other))
SAYS(allocation_by, umbra_allocation_find(pool, at, count, &other, &address, &number))
SAYS(channel_send, umbra_channel_send(channel, at, count, 0, UMBRA_WAIT_IDLE, 0))
SAYS(sender_send, umbra_sender_send(sender, at, count, 0, 0))
SAYS(sender_keep, umbra_sender_keep(sender, at, count, 0))
SAYS(allocation_write, umbra_allocation_write(pool, allocation, 0, at, count, 0))
SAYS(stream_over, undone(umbra_stream_create(&plain, at, count, &other), umbra_stream_detach))
SAYS(stream_along, undone(umbra_stream_attach_reference(reference, reference_length, at, count, &other), umbra_stream_detach))
SAYS(set_of, undone(umbra_channel_set_create(at, count, UMBRA_POLL_IN, &other), umbra_channel_set_release))
SAYS(fabric_for, undone(umbra_fabric_create(&mesh, at, count, &other), umbra_fabric_release))
SAYS(fabric_along, undone(umbra_fabric_attach(descriptor, &mesh, at, count, &other), umbra_fabric_release))
SAYS(cache_free, umbra_cache_free_all(cache, at, NULL, count, &length))
SAYS(cache_free_by, umbra_cache_free_all(cache, room, at, count, &length))
SAYS(shared_pin, umbra_shared_cache_pin_all(shared, at, count, 0, (struct umbra_shared_pin *)(void *)room, &length))
SAYS(shared_pin_into, umbra_shared_cache_pin_all(shared, room, count, 0, at, &length))
SAYS(shared_free, umbra_shared_cache_free_all(shared, at, count, 0, &length))
SAYS(shared_free_pins, umbra_shared_cache_free_pins(shared, at, count, &length))
SAYS(stencil_count, umbra_stencil_count(stencil, at, count))
SAYS(stencil_submit, umbra_stencil_submit(stencil, 1, at, count, NULL))
SAYS(stencil_alloc, umbra_stencil_alloc(stencil, 1, at, count, 0, &number))
SAYS(stencil_submit_members, umbra_stencil_submit_members(stencil, 1, at, count, NULL))
SAYS(stencil_alloc_members, umbra_stencil_alloc_members(stencil, 1, at, count, 0, &number))
SAYS(places_for, umbra_cached_memory_alloc(places, at, count, 0))

static int objects_of(void *at, size_t count)
{
    struct umbra_object_pool_options options;
    int code;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.classes = at;
    options.class_count = count;
    code = umbra_object_pool_create(&options, &other);
    if (code == 0)
        must(umbra_object_pool_destroy(other));
    return code;
}

static int cache_alloc(void *at, size_t count)
{
    struct umbra_cache_grant grants[4];
    return umbra_cache_alloc_all(cache, at, count, grants, &length);
}

static int offer(void *at, size_t count)
{
    int code = umbra_gpc_offer(member, at, count, &other);
    if (code == 0)
        must(umbra_gpc_take_back(member, other));
    return code;
}

#define OPTIONS(type, name) \
    struct type name; \
    memset(&name, 0, sizeof name); \
    name.size = sizeof name

static int stencil_ids(void *at, size_t count)
{
    OPTIONS(umbra_stencil_options, options);
    options.slots = options.groups = options.largest_group = 1;
    options.inputs = count;
    options.ids = at;
    return undone(umbra_stencil_create(&options, &other), umbra_stencil_destroy);
}

/* Groups that are known beforehand, of so many lengths and inputs. */
static int known(const size_t *lengths, size_t groups, const uint64_t *inputs)
{
    OPTIONS(umbra_stencil_options, options);
    OPTIONS(umbra_stencil_groups, listed);
    listed.lengths = lengths;
    listed.count = groups;
    listed.inputs = inputs;
    options.slots = options.groups = options.largest_group = 1;
    options.inputs = 1;
    options.known = &listed;
    return undone(umbra_stencil_create(&options, &other), umbra_stencil_destroy);
}

SAYS(stencil_known, known(&count, 1, at))
SAYS(stencil_known_lengths, known(at, count, NULL))

/* A call of what nobody has registered, which is said last. */
static int call(const uint32_t *members, size_t count, const void *header, size_t header_length, const void *data,
                size_t data_length)
{
    struct umbra_gpc_call wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.function = "nobody's";
    wanted.members = members;
    wanted.count = count;
    wanted.header = header;
    wanted.header_length = header_length;
    wanted.data = data;
    wanted.data_length = data_length;
    return umbra_gpc_start(member, &wanted, &other);
}

SAYS(call_members, call(at, count, NULL, 0, NULL, 0))
SAYS(call_header, call(NULL, 0, at, count, NULL, 0))
SAYS(call_data, call(NULL, 0, NULL, 0, at, count))

static const struct umbra_gpc_edge edges[] = {{0, 1}, {1, 2}};
static uint32_t parents[3];

SAYS(edges_of, umbra_gpc_parents(at, count, parents, 1))
SAYS(parents_in, umbra_gpc_parents(edges, count < 2 ? 0 : 2, at, count))

/* ---- what is filled ---- */

SAYS(error_text, umbra_error_text(-UMBRA_EFULL, at, count, NULL))
SAYS(error_detail, umbra_error_detail(at, count, NULL))
SAYS(channel_peek, umbra_channel_peek(channel, at, count, UMBRA_WAIT_IDLE, 0, &length, NULL))
SAYS(pooled_peek, umbra_channel_peek(pooled, at, count, UMBRA_WAIT_IDLE, 0, &length, NULL))
SAYS(pool_reference, umbra_pool_reference(pool, at, count, &length))
SAYS(channel_reference, umbra_channel_reference(channel, at, count, &length))
SAYS(stream_reference, umbra_stream_reference(stream, at, count, &length))
SAYS(allocation_reference, umbra_allocation_reference(pool, allocation, at, count, &length))
SAYS(part_reference, umbra_allocation_part_reference(pool, allocation, 0, 1, at, count, &length))
SAYS(allocation_read, umbra_allocation_read(pool, allocation, 0, at, count, 0))
SAYS(pool_list, umbra_pool_list(pool, UINT32_MAX, at, NULL, count, &length))
SAYS(cache_outstanding, umbra_cache_outstanding(interrupted, at, count, &length))
SAYS(stencil_outstanding, umbra_stencil_outstanding(stopped, at, count, &length))
SAYS(stencil_slots, umbra_stencil_slots(stencil, group, at, count, &length))

static int channel_receive(void *at, size_t count)
{
    must(umbra_channel_send(channel, "abc", 3, 0, UMBRA_WAIT_IDLE, 0));
    return umbra_channel_receive(channel, at, count, UMBRA_WAIT_IDLE, 0, &length, NULL);
}

/* Receives what came before, and three bytes into a buffer that is to be judged. */
static int receive(void *at, size_t count, int whole, uint32_t exactly)
{
    unsigned char rest[64];
    while (umbra_receiver_receive(receiver, rest, sizeof rest, 0, 0, &length, NULL) == 0)
        continue;
    must(umbra_sender_send(sender, "abc", 3, 0, 0));
    if (whole)
        return umbra_receiver_receive_whole(receiver, at, count, 0, &length, NULL);
    return umbra_receiver_receive(receiver, at, count, exactly, 0, &length, NULL);
}

SAYS(receive_some, receive(at, count, 0, 0))
SAYS(receive_exactly, receive(at, count, 0, 1))
SAYS(receive_whole, receive(at, count, 1, 0))

static int take_kept(void *at, size_t count)
{
    unsigned char rest[64];
    must(umbra_sender_take_kept(sender, rest, sizeof rest, &length, NULL));
    must(umbra_sender_keep(sender, "abc", 3, 0));
    return umbra_sender_take_kept(sender, at, count, &length, NULL);
}

/* Makes a group ready; those that were accepted before end. */
static void ready(void)
{
    OPTIONS(umbra_stencil_action, action);
    must(umbra_stencil_submit(stencil, 1, &input, 1, &group));
    for (;;) {
        must(umbra_stencil_poll(stencil, &action));
        if (action.kind == UMBRA_ACTION_PREPARE)
            must(umbra_stencil_prepared(stencil, action.data));
        else if (action.group == group)
            return;
        else
            must(umbra_stencil_free_group(stencil, action.group));
    }
}

/* Hands the group over that is ready; there is another one then. */
static int stencil_hand_over(void *at, size_t count)
{
    int code = umbra_stencil_hand_over(stencil, group, at, count, &length);
    if (code == 0) {
        must(umbra_stencil_free(stencil, input));
        ready();
    }
    return code;
}

SAYS(stencil_unclaimed, umbra_stencil_unclaimed(counted, at, count, &length))
SAYS(places_outstanding, umbra_cached_memory_outstanding(abandoned, at, count, &length))

/* ---- what each says ---- */

/* Of which any address is one: it is not asked about a crooked one. */
#define BYTES 1

/* What a function says to nothing at NULL, to three things at NULL, to more than any memory has, and to one thing that begins in the
 * middle of a number. */
static const struct row {
    const char *name;
    int (*says)(void *at, size_t count);
    int none, lost, endless, crooked;
} rows[] = {
#define ROW(name, none, lost, endless, crooked) {#name, name, none, lost, endless, crooked}
    ROW(pool_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(shared_pool_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(far_pool_by, -UMBRA_ESTALE, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(channel_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(far_channel_by, -UMBRA_ESTALE, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(stream_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(far_stream_by, -UMBRA_ESTALE, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(host_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(allocation_by, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(channel_send, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(sender_send, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(sender_keep, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(allocation_write, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(offer, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(call_header, -UMBRA_ENOFUNCTION, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(call_data, -UMBRA_ENOFUNCTION, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(call_members, -UMBRA_ENOFUNCTION, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(edges_of, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(parents_in, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stream_over, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stream_along, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(set_of, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(fabric_for, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(fabric_along, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(objects_of, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(cache_alloc, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(cache_free, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(cache_free_by, 0, -UMBRA_ENOSLOT, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(shared_pin, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(shared_pin_into, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(shared_free, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(shared_free_pins, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_count, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_submit, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_alloc, -UMBRA_ETIMEOUT, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_submit_members, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_alloc_members, -UMBRA_ETIMEOUT, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_ids, 0, 0, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_known, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(stencil_known_lengths, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    ROW(places_for, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, -UMBRA_EINVAL),
    /* Buffers get no more than there is, however large. */
    ROW(error_text, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(error_detail, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(channel_receive, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(channel_peek, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(pooled_peek, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(receive_some, 0, -UMBRA_EINVAL, 0, BYTES),
    ROW(receive_exactly, 0, -UMBRA_EINVAL, -UMBRA_EINVAL, BYTES),
    ROW(receive_whole, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, BYTES),
    ROW(take_kept, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, BYTES),
    ROW(pool_reference, -UMBRA_ESIZE, -UMBRA_ESIZE, 0, BYTES),
    ROW(channel_reference, -UMBRA_ESIZE, -UMBRA_ESIZE, 0, BYTES),
    ROW(stream_reference, -UMBRA_ESIZE, -UMBRA_ESIZE, 0, BYTES),
    ROW(allocation_reference, -UMBRA_ESIZE, -UMBRA_ESIZE, 0, BYTES),
    ROW(part_reference, -UMBRA_ESIZE, -UMBRA_ESIZE, 0, BYTES),
    ROW(allocation_read, 0, -UMBRA_EINVAL, -UMBRA_EBOUNDS, BYTES),
    ROW(pool_list, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(cache_outstanding, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(stencil_outstanding, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(stencil_slots, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(stencil_hand_over, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(stencil_unclaimed, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
    ROW(places_outstanding, -UMBRA_ESIZE, -UMBRA_EINVAL, 0, -UMBRA_EINVAL),
};

static void ask(const struct row *row, const char *what, void *at, size_t count, int expected)
{
    int code = row->says(at, count);
    if (code == expected)
        return;
    fprintf(stderr, "%s of %s: %d, and not %d\n", row->name, what, code, expected);
    exit(1);
}

/* ---- what they are asked with ---- */

static uint32_t of_rank(void *context, uint32_t block)
{
    (void)context;
    return block;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    (void)block;
    (void)direction;
    return UMBRA_NO_BLOCK;
}

static void conversation(void)
{
    OPTIONS(umbra_sender_options, sends);
    OPTIONS(umbra_receiver_options, receives);
    plain.size = sizeof plain;
    must(umbra_stream_create(&plain, NULL, 0, &stream));
    must(umbra_stream_reference(stream, reference, sizeof reference, &reference_length));
    must(umbra_sender_open(stream, &sends, 1000, &sender));
    must(umbra_receiver_open(stream, &receives, 1000, &receiver));
}

static void caches(void)
{
    uint32_t slot, found;
    struct umbra_placed place = {1, 8, 0, 0};
    OPTIONS(umbra_cache_options, slots);
    OPTIONS(umbra_shared_cache_options, of_all);
    OPTIONS(umbra_memory_options, bytes);
    of_all.slots = 4;
    must(umbra_shared_cache_create(&of_all, &shared));
    slots.slots = 4;
    slots.ids = 8;
    must(umbra_cache_create(&slots, &cache));
    must(umbra_cache_create(&slots, &interrupted));
    must(umbra_cache_alloc(interrupted, 0, 0, &slot, &found));
    must(umbra_cache_interrupt(interrupted));
    bytes.capacity = 4096;
    bytes.ranges = 4;
    must(umbra_cached_memory_create(&bytes, &places));
    must(umbra_cached_memory_create(&bytes, &abandoned));
    must(umbra_cached_memory_alloc(abandoned, &place, 1, 0));
    must(umbra_cached_memory_interrupt(abandoned));
}

/* One with a group that is ready, and one that was interrupted while it loaded. */
static void stencils(void)
{
    OPTIONS(umbra_stencil_options, options);
    OPTIONS(umbra_stencil_action, action);
    options.slots = 4;
    options.inputs = 8;
    options.groups = 8;
    options.largest_group = 3;
    must(umbra_stencil_create(&options, &stencil));
    ready();
    options.counted = 1;
    must(umbra_stencil_create(&options, &counted));
    must(umbra_stencil_count(counted, &input, 1));
    options.counted = 0;
    must(umbra_stencil_create(&options, &stopped));
    must(umbra_stencil_submit(stopped, 1, &input, 1, NULL));
    must(umbra_stencil_poll(stopped, &action));
    must(umbra_stencil_interrupt(stopped));
}

static void members(void)
{
    static const struct umbra_field field = {1, 0, 0, 0, 0};
    OPTIONS(umbra_station_options, seats);
    seats.members = 2;
    seats.offer_bytes = 4096;
    must(umbra_station_create(&seats, &station));
    must(umbra_gpc_join(station, 0, NULL, &member));
    mesh.size = sizeof mesh;
    mesh.cells[0] = 4;
    mesh.cells[1] = mesh.cells[2] = mesh.ghosts[0] = mesh.blocks = mesh.ranks = 1;
    mesh.owner = of_rank;
    mesh.neighbour = neighbour;
    must(umbra_fabric_create(&mesh, &field, 1, &fabric));
    must(umbra_fabric_descriptor(fabric, &descriptor));
}

int main(void)
{
    size_t at;
    OPTIONS(umbra_pool_options, bytes);
    OPTIONS(umbra_channel_options, messages);
    OPTIONS(umbra_shared_cache_statistics, told);
    doing = "lengths";
    bytes.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &bytes, &pool));
    must(umbra_pool_alloc(pool, 16, 0, 0, &allocation, &address));
    must(umbra_channel_create(&messages, &channel));
    must(umbra_pool_create(NULL, &bytes, &of_messages));
    must(umbra_channel_create_in(of_messages, &messages, &pooled));
    memset(longer, 'l', sizeof longer);
    must(umbra_channel_send(pooled, longer, sizeof longer, 0, UMBRA_WAIT_IDLE, 0));
    conversation();
    caches();
    stencils();
    members();
    for (at = 0; at < sizeof rows / sizeof *rows; at++) {
        const struct row *row = &rows[at];
        ask(row, "nothing", NULL, 0, row->none);
        ask(row, "three at no address", NULL, 3, row->lost);
        if (row->crooked != BYTES)
            ask(row, "one at a crooked address", (char *)room + 1, 1, row->crooked);
        ask(row, "more than half of all addresses", room, SIZE_MAX / 2 + 1, row->endless);
        ask(row, "more than all addresses", room, SIZE_MAX, row->endless);
    }
    memset(room, 0, sizeof room);
    must(umbra_channel_peek(pooled, room, SIZE_MAX, UMBRA_WAIT_IDLE, 0, &length, NULL));
    CHECK(length == sizeof longer && memcmp(room, longer, length) == 0 && ((unsigned char *)room)[length] == 0);
    must(umbra_channel_peek(pooled, memset(room, 0, sizeof room), 5, UMBRA_WAIT_IDLE, 0, &length, NULL));
    CHECK(length == sizeof longer && memcmp(room, longer, 5) == 0 && ((unsigned char *)room)[5] == 0);
    CHECK(umbra_channel_destroy(pooled) == 0 && umbra_channel_detach(pooled) == 0 && umbra_pool_detach(of_messages) == 0);
    CHECK(umbra_fabric_release(fabric) == 0 && umbra_gpc_leave(member) == 0 && umbra_station_detach(station) == 0);
    CHECK(umbra_stencil_destroy(counted) == 0 && umbra_cached_memory_destroy(abandoned) == 0);
    CHECK(umbra_stencil_destroy(stopped) == 0 && umbra_stencil_destroy(stencil) == 0);
    CHECK(umbra_cached_memory_destroy(places) == 0);
    must(umbra_shared_cache_statistics(shared, &told));
    CHECK(told.loads == 0 && umbra_shared_cache_leave(shared) == 0);
    CHECK(umbra_cache_destroy(interrupted) == 0 && umbra_cache_destroy(cache) == 0);
    CHECK(umbra_sender_close(sender, 1000) == 0 && umbra_receiver_close(receiver, 1000) == 0);
    CHECK(umbra_stream_detach(stream) == 0 && umbra_channel_detach(channel) == 0);
    CHECK(umbra_allocation_free(pool, allocation) == 0 && umbra_pool_detach(pool) == 0);
    return 0;
}
