/* What is left when a call fails: outputs and buffers as they were, handles that can be released, ends that go on or say that they
 * are over; and what a call takes.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define SHORT_MS 20
/* Bytes that no machine has. */
#define MUCH ((size_t)1 << 50)
#define BLOCKS 8
#define RANKS 4
#define CELLS 8
#define WIDTH (CELLS + 2)

static const char KEPT[] = "what the program has in its buffer";
static char buffer[sizeof KEPT];

static int is_kept(void)
{
    return memcmp(buffer, KEPT, sizeof KEPT) == 0;
}

/* The first message of a channel that has none, and of one whose message does not fit. */
static void messages(umbra_channel channel)
{
    size_t length = 7;
    uint64_t hints = 8;
    CHECK(umbra_channel_receive(channel, buffer, sizeof buffer, 0, 0, &length, &hints) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_peek(channel, buffer, sizeof buffer, 0, 0, &length, &hints) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_receive(channel, buffer, sizeof buffer, 0, SHORT_MS, &length, &hints) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_peek(channel, buffer, sizeof buffer, 0, SHORT_MS, &length, &hints) == -UMBRA_ETIMEOUT);
    CHECK(length == 7 && hints == 8 && is_kept());
    must(umbra_channel_send(channel, "message", 7, 9, 0, 0));
    CHECK(umbra_channel_receive(channel, buffer, 6, 0, 0, &length, &hints) == -UMBRA_ESIZE);
    CHECK(length == 7 && hints == 8 && is_kept());
    must(umbra_channel_peek(channel, buffer, 2, 0, 0, &length, &hints));
    CHECK(length == 7 && hints == 9 && memcmp(buffer, "meat the program", 16) == 0);
    must(umbra_channel_receive(channel, buffer, sizeof buffer, 0, 0, &length, &hints));
    CHECK(length == 7 && memcmp(buffer, "message", 7) == 0 && memcmp(buffer + 7, KEPT + 7, sizeof KEPT - 7) == 0);
    memcpy(buffer, KEPT, sizeof KEPT);
}

static void buffers(void)
{
    struct umbra_channel_options options;
    struct umbra_pool_options room;
    umbra_channel channel;
    umbra_pool pool;
    umbra_allocation allocation;
    void *address;
    char detail[200] = "";
    /* Longer than a block. */
    static char large[3000];
    size_t length = 7;
    uint64_t hints = 8;
    doing = "buffers";
    memcpy(buffer, KEPT, sizeof KEPT);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = UINT16_MAX + 1;
    CHECK(umbra_channel_create(&options, &channel) == -UMBRA_EINVAL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strcmp(detail, "65536 members: at most 65535 are possible") == 0);
    options.members = 0;
    must(umbra_channel_create(&options, &channel));
    messages(channel);
    must(umbra_channel_detach(channel));

    memset(&room, 0, sizeof room);
    room.size = sizeof room;
    room.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &room, &pool));
    must(umbra_channel_create_in(pool, &options, &channel));
    messages(channel);
    /* What a look at a message takes is what the message has, whatever there is room for. */
    CHECK(umbra_channel_peek(channel, buffer, MUCH, 0, 0, &length, &hints) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_peek(channel, buffer, MUCH, 0, SHORT_MS, &length, &hints) == -UMBRA_ETIMEOUT);
    CHECK(length == 7 && hints == 8 && is_kept());
    memset(large, 'l', sizeof large);
    must(umbra_channel_send(channel, large, sizeof large, 9, 0, 0));
    memset(large, 0, sizeof large);
    must(umbra_channel_peek(channel, large, MUCH, 0, 0, &length, &hints));
    CHECK(length == sizeof large && hints == 9 && large[0] == 'l' && large[sizeof large - 1] == 'l');
    memset(large, 0, sizeof large);
    must(umbra_channel_peek(channel, large, sizeof large - 1, 0, 0, &length, &hints));
    CHECK(length == sizeof large && large[sizeof large - 2] == 'l' && large[sizeof large - 1] == 0);
    must(umbra_channel_destroy(channel));
    must(umbra_channel_detach(channel));

    must(umbra_pool_alloc(pool, 16, 0, 0, &allocation, &address));
    CHECK(umbra_allocation_read(pool, allocation, 1, buffer, 16, 0) == -UMBRA_EBOUNDS && is_kept());
    CHECK(umbra_allocation_read(pool, allocation, UINT64_MAX, buffer, 1, 0) == -UMBRA_EBOUNDS && is_kept());
    must(umbra_allocation_free(pool, allocation));
    CHECK(umbra_allocation_read(pool, allocation, 0, buffer, 16, 0) == -UMBRA_ESTALE && is_kept());
    must(umbra_pool_detach(pool));
}

static umbra_sender sender_of(umbra_stream stream)
{
    struct umbra_sender_options options;
    umbra_sender sender;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    must(umbra_sender_open(stream, &options, PATIENCE_MS, &sender));
    return sender;
}

static umbra_receiver receiver_of(umbra_stream stream)
{
    struct umbra_receiver_options options;
    umbra_receiver receiver;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    must(umbra_receiver_open(stream, &options, PATIENCE_MS, &receiver));
    return receiver;
}

/* Ends for which no descriptor is to be had go on. */
static void ends(void)
{
    struct umbra_stream_options options;
    struct rlimit usual, none;
    umbra_stream stream;
    umbra_sender sender;
    umbra_receiver receiver;
    size_t length = 7;
    int file = -1;
    doing = "ends of conversations";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    must(umbra_stream_create(&options, NULL, 0, &stream));
    sender = sender_of(stream);
    must(umbra_sender_send(sender, "one", 3, 0, PATIENCE_MS));
    receiver = receiver_of(stream);
    must(umbra_receiver_receive(receiver, buffer, 1, 0, PATIENCE_MS, &length, NULL));

    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    none = usual;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(umbra_sender_open_file(sender, 0, &file) == -UMBRA_ESYSTEM && file == -1);
    CHECK(umbra_receiver_open_file(receiver, 0, &file) == -UMBRA_ESYSTEM && file == -1);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);

    CHECK(umbra_receiver_receive(receiver, buffer, SIZE_MAX, 1, PATIENCE_MS, &length, NULL) == -UMBRA_EINVAL && length == 1);
    must(umbra_receiver_receive(receiver, buffer, 2, 1, PATIENCE_MS, &length, NULL));
    CHECK(length == 2 && memcmp(buffer, "ne", 2) == 0);
    memcpy(buffer, KEPT, sizeof KEPT);
    CHECK(umbra_receiver_receive(receiver, buffer, sizeof buffer, 0, 0, &length, NULL) == -UMBRA_EEMPTY);
    CHECK(umbra_receiver_receive(receiver, buffer, sizeof buffer, 1, SHORT_MS, &length, NULL) == -UMBRA_ETIMEOUT);
    CHECK(length == 2 && is_kept());
    must(umbra_sender_send(sender, "two", 3, 0, PATIENCE_MS));
    must(umbra_receiver_receive(receiver, buffer, sizeof buffer, 0, PATIENCE_MS, &length, NULL));
    CHECK(length == 3 && memcmp(buffer, "two", 3) == 0 && memcmp(buffer + 3, KEPT + 3, sizeof KEPT - 3) == 0);
    must(umbra_sender_close(sender, PATIENCE_MS));
    CHECK(umbra_sender_close(sender, PATIENCE_MS) == -UMBRA_ESTALE);
    must(umbra_receiver_close(receiver, PATIENCE_MS));
    CHECK(umbra_receiver_close(receiver, PATIENCE_MS) == -UMBRA_ESTALE);
    must(umbra_stream_detach(stream));
}

/* A function that asks for more data than there is, or for some that came with the request. */
static int greedy(void *user, struct umbra_gpc_work *work)
{
    int expected = work->offered_length > 0 ? -UMBRA_EBOUNDS : -UMBRA_EINVAL;
    (void)user;
    if (work->phase == UMBRA_GPC_WAIT)
        return 0;
    return umbra_gpc_work_read(work, work->offered_length, buffer, 8) == expected && is_kept() ? 0 : 1;
}

static void offered(void)
{
    struct umbra_station_options options;
    struct umbra_gpc_call call;
    umbra_station station;
    umbra_member member;
    umbra_offer offer;
    doing = "offered data";
    memcpy(buffer, KEPT, sizeof KEPT);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = 1;
    options.offer_bytes = 4096;
    must(umbra_station_create(&options, &station));
    must(umbra_gpc_join(station, 0, NULL, &member));
    must(umbra_gpc_register(member, "greedy", greedy, NULL));
    must(umbra_gpc_offer(member, KEPT, sizeof KEPT, &offer));
    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = "greedy";
    call.timeout_ms = PATIENCE_MS;
    call.offer = offer;
    must(umbra_gpc_exec(member, &call, NULL));
    call.offer = 0;
    call.data = KEPT;
    call.data_length = sizeof KEPT;
    must(umbra_gpc_exec(member, &call, NULL));
    must(umbra_gpc_leave(member));
    must(umbra_station_detach(station));
}

/* Answers with eight bytes of header and of data, and counts how often. */
static int answers(void *user, struct umbra_gpc_work *work)
{
    if (work->phase == UMBRA_GPC_WAIT)
        return 0;
    ++*(int *)user;
    memcpy(work->reply_header, "header 1", 8);
    memcpy(work->reply_data, "and data", 8);
    work->reply_header_length = work->reply_data_length = 8;
    return 0;
}

/* A reply of which one part has room and the other one has not is not told by halves. */
static void replies(void)
{
    struct umbra_station_options options;
    struct umbra_gpc_call wanted;
    struct umbra_gpc_answer answer;
    umbra_station station;
    umbra_member member;
    umbra_call call;
    char data[8] = "nothing";
    int runs = 0;
    doing = "replies";
    memcpy(buffer, KEPT, sizeof KEPT);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = 1;
    must(umbra_station_create(&options, &station));
    must(umbra_gpc_join(station, 0, NULL, &member));
    must(umbra_gpc_register(member, "answers", answers, &runs));
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.function = wanted.callback = "answers";
    wanted.reply_header = wanted.reply_data = 8;
    wanted.timeout_ms = PATIENCE_MS;
    call = 77;
    wanted.timeout_ms = UMBRA_GPC_LONGEST_MS + 1;
    CHECK(umbra_gpc_start(member, &wanted, &call) == -UMBRA_EINVAL && call == 77);
    wanted.timeout_ms = UMBRA_FOREVER;
    CHECK(umbra_gpc_exec(member, &wanted, NULL) == -UMBRA_EINVAL);
    wanted.timeout_ms = UMBRA_GPC_LONGEST_MS;
    must(umbra_gpc_start(member, &wanted, &call));
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    answer.header = buffer;
    answer.header_capacity = answer.data_capacity = 8;
    answer.ok = 77;
    CHECK(umbra_gpc_wait(member, call, PATIENCE_MS, &answer) == -UMBRA_EINVAL);
    CHECK(is_kept() && answer.ok == 77 && answer.header_length == 0 && answer.data_length == 0);
    answer.data = data;
    answer.data_capacity = 7;
    CHECK(umbra_gpc_wait(member, call, PATIENCE_MS, &answer) == -UMBRA_ESIZE);
    CHECK(is_kept() && memcmp(data, "nothing", 8) == 0 && answer.header_length == 8 && answer.data_length == 8);
    answer.data_capacity = 8;
    must(umbra_gpc_wait(member, call, PATIENCE_MS, &answer));
    CHECK(answer.ok == 1 && memcmp(buffer, "header 1", 8) == 0 && memcmp(data, "and data", 8) == 0 && runs == 1);
    /* No call is made whose answer could not be told. */
    answer.header = NULL;
    CHECK(umbra_gpc_exec(member, &wanted, &answer) == -UMBRA_EINVAL && runs == 1);
    answer.header = buffer;
    answer.failures = (struct umbra_gpc_failure *)1;
    CHECK(umbra_gpc_exec(member, &wanted, &answer) == -UMBRA_EINVAL && runs == 1);
    must(umbra_gpc_leave(member));
    must(umbra_station_detach(station));
}

/* Who asks for more memory than there is has no seat; nor is anything asked of what an older program does not have. */
static void seats(void)
{
    struct umbra_station_options options;
    struct umbra_gpc_options room;
    umbra_station station;
    umbra_member member = 77;
    doing = "seats";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.members = 1;
    must(umbra_station_create(&options, &station));
    memset(&room, 0, sizeof room);
    room.size = sizeof room;
    room.answer_bytes = MUCH;
    CHECK(umbra_gpc_join(station, 0, &room, &member) == -UMBRA_ESYSTEM && member == 77);
    room.answer_bytes = 0;
    room.call_bytes = MUCH;
    CHECK(umbra_gpc_join(station, 0, &room, &member) == -UMBRA_ESYSTEM && member == 77);
    room.call_bytes = UINT64_MAX;
    CHECK(umbra_gpc_join(station, 0, &room, &member) == -UMBRA_ESYSTEM && member == 77);
    memset(&room, 0xff, sizeof room);
    room.size = offsetof(struct umbra_gpc_options, answer_bytes);
    CHECK(room.size == 24);
    room.calls = room.functions = 1;
    room.call_bytes = 4096;
    must(umbra_gpc_join(station, 0, &room, &member));
    must(umbra_gpc_leave(member));
    room.size = sizeof room;
    room.answer_bytes = 8;
    room.remembered = 1;
    must(umbra_gpc_join(station, 0, &room, &member));
    must(umbra_gpc_leave(member));
    must(umbra_station_detach(station));
}

/* Outputs in front of one that is refused, and lengths of what has no buffer. */
static void several(void)
{
    struct umbra_pool_options room;
    struct umbra_cache_options slots;
    umbra_pool pool;
    umbra_cache cache;
    umbra_allocation allocation, listed = 5;
    uint32_t major = 77, slot, found;
    size_t length = 77;
    char told[16];
    void *address;
    doing = "several outputs";
    CHECK(umbra_library_version(&major, &major, NULL) == -UMBRA_EINVAL && major == 77);
    CHECK(umbra_error_text(-UMBRA_EFULL, NULL, 9, &length) == -UMBRA_EINVAL && length == 77);
    CHECK(umbra_error_put(UMBRA_EFULL, "our house") == -UMBRA_EFULL && umbra_error_put(-UMBRA_EFULL, "our house") == -UMBRA_EFULL);
    CHECK(umbra_error_detail(told, sizeof told, &length) == 0 && length == 9 && strcmp(told, "our house") == 0);
    CHECK(umbra_error_put(0, "all") == -UMBRA_EINVAL && umbra_error_put(-99, "all") == -UMBRA_EINVAL);
    CHECK(umbra_error_put(UMBRA_EFULL, NULL) == -UMBRA_EINVAL);
    length = 77;
    memset(&room, 0, sizeof room);
    room.size = sizeof room;
    room.bytes = 1 << 20;
    must(umbra_pool_create(NULL, &room, &pool));
    must(umbra_pool_alloc(pool, 16, 0, 0, &allocation, &address));
    CHECK(umbra_pool_list(pool, UINT32_MAX, NULL, NULL, 1, &length) == -UMBRA_EINVAL && length == 77);
    CHECK(umbra_pool_list(pool, UINT32_MAX, &listed, (uint32_t *)1, 1, &length) == -UMBRA_EINVAL && length == 77 && listed == 5);
    CHECK(umbra_pool_reference(pool, NULL, 4096, &length) == -UMBRA_EINVAL && length == 77);
    must(umbra_pool_detach(pool));
    memset(&slots, 0, sizeof slots);
    slots.size = sizeof slots;
    slots.slots = 1;
    slots.ids = 1;
    must(umbra_cache_create(&slots, &cache));
    must(umbra_cache_alloc(cache, 0, 0, &slot, &found));
    must(umbra_cache_interrupt(cache));
    CHECK(umbra_cache_outstanding(cache, NULL, 4, &length) == -UMBRA_EINVAL && length == 77);
    must(umbra_cache_destroy(cache));
}

/* A group that is refused has no number; whether one that was waited for in vain goes on is told. */
static void groups(void)
{
    struct umbra_stencil_options options;
    umbra_stencil stencil;
    uint64_t input = 0, group = 77;
    doing = "groups";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = options.groups = options.largest_group = 1;
    options.inputs = 2;
    must(umbra_stencil_create(&options, &stencil));
    must(umbra_stencil_alloc(stencil, 0, &input, 1, 0, NULL));
    CHECK(umbra_stencil_alloc(stencil, 1, &input, 1, SHORT_MS, &group) == -UMBRA_ETIMEOUT && group == 0);
    input = 2;
    group = 77;
    must(umbra_stencil_interrupt(stencil));
    CHECK(umbra_stencil_alloc(stencil, 1, &input, 1, 0, &group) == -UMBRA_EINTERRUPTED && group == 77);
    must(umbra_stencil_destroy(stencil));
}

/* A ring of blocks, whose owners are moved on by the shift. */
struct ring {
    uint32_t rank, ranks, shift;
    umbra_fabric fabric;
    int code;
    double values[BLOCKS][WIDTH];
};

static uint32_t owner(void *context, uint32_t block)
{
    struct ring *ring = context;
    return (block + ring->shift) % BLOCKS * ring->ranks / BLOCKS;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    return (block + BLOCKS + (uint32_t)direction[0]) % BLOCKS;
}

static struct umbra_mesh mesh_of(struct ring *ring, uint32_t most_blocks)
{
    struct umbra_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = CELLS;
    mesh.cells[1] = mesh.cells[2] = 1;
    mesh.ghosts[0] = 1;
    mesh.blocks = BLOCKS;
    mesh.ranks = ring->ranks;
    mesh.most_blocks = most_blocks;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.context = ring;
    return mesh;
}

/* Options of an exchange whose ranks wait for each other as long as all here. */
static struct umbra_boundary_options patient(void)
{
    struct umbra_boundary_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.timeout_ms = PATIENCE_MS;
    return options;
}

/* Many fields, so that a message is of several pages. */
static long bytes_of(uint32_t most_blocks)
{
    static struct umbra_field fields[500];
    struct ring ring;
    struct umbra_mesh mesh;
    struct stat told;
    umbra_fabric fabric;
    size_t i;
    int descriptor;
    for (i = 0; i < sizeof fields / sizeof *fields; i++)
        fields[i].components = 1;
    memset(&ring, 0, sizeof ring);
    ring.ranks = RANKS;
    mesh = mesh_of(&ring, most_blocks);
    must(umbra_fabric_create(&mesh, fields, sizeof fields / sizeof *fields, &fabric));
    must(umbra_fabric_descriptor(fabric, &descriptor));
    CHECK(fstat(descriptor, &told) == 0);
    must(umbra_fabric_release(fabric));
    return (long)told.st_size;
}

/* A fabric has memory for so many blocks on any rank, and for no more; one that nobody could count the bytes of is refused. */
static void sizes(void)
{
    static struct umbra_field fields[UINT16_MAX];
    struct ring ring;
    struct umbra_mesh mesh;
    umbra_fabric fabric = 77;
    uint32_t most;
    size_t i;
    int code;
    doing = "sizes of fabrics";
    for (most = 1; most <= BLOCKS / RANKS; most++)
        CHECK(bytes_of(most) == bytes_of(0));
    for (; most <= BLOCKS; most++)
        CHECK(bytes_of(most) > bytes_of(most - 1));
    CHECK(bytes_of(BLOCKS + 1) == bytes_of(BLOCKS));
    memset(&ring, 0, sizeof ring);
    ring.ranks = 1;
    mesh = mesh_of(&ring, 0);
    mesh.ranks = UINT32_MAX;
    CHECK(umbra_fabric_create(&mesh, fields, 1, &fabric) == -UMBRA_EINVAL && fabric == 77);
    mesh = mesh_of(&ring, 0);
    mesh.cells[0] = mesh.cells[1] = mesh.cells[2] = 1000;
    for (i = 0; i < UINT16_MAX; i++)
        fields[i].components = UINT32_MAX;
    /* Whether the system has so many addresses is its own matter. */
    code = umbra_fabric_create(&mesh, fields, UINT16_MAX, &fabric);
    CHECK(code == 0 || code == -UMBRA_ESYSTEM);
    if (code == 0)
        must(umbra_fabric_release(fabric));
}

static double *values(void *context, uint32_t block, uint32_t field)
{
    struct ring *ring = context;
    (void)field;
    CHECK(owner(ring, block) == ring->rank);
    return ring->values[block];
}

/* Each rank changes to a mesh of its own: no array is asked for after that. */
static void *differ(void *user)
{
    struct ring *ring = user;
    struct umbra_mesh mesh = mesh_of(ring, BLOCKS);
    struct umbra_boundary_options options = patient();
    struct umbra_boundary_statistics figures;
    struct umbra_arrays arrays;
    umbra_boundary boundary;
    int ready = 7;
    /* The head of a message, with the place of its bits: no value fits. */
    options.largest_slot = 72;
    memset(&arrays, 0, sizeof arrays);
    arrays.size = sizeof arrays;
    arrays.values = values;
    arrays.context = ring;
    must(umbra_boundary_build(ring->fabric, ring->rank, &mesh, &options, &boundary));
    must(umbra_boundary_exchange(boundary, &arrays));
    memset(&figures, 0x77, sizeof figures);
    figures.size = sizeof figures;
    must(umbra_boundary_statistics(boundary, &figures));
    CHECK(figures.overflows == 1 && figures.receive_bytes == 2 * 72 && figures.dense_receive_bytes > 2 * 72);
    CHECK(figures.held_receive_bytes >= figures.receive_bytes && figures.held_send_bytes > 0);
    /* As the first version had it. */
    memset(&figures, 0x77, sizeof figures);
    figures.size = offsetof(struct umbra_boundary_statistics, held_receive_bytes);
    must(umbra_boundary_statistics(boundary, &figures));
    CHECK(figures.overflows == 1 && figures.held_receive_bytes == 0x7777777777777777);
    ring->shift = ring->rank;
    CHECK(umbra_boundary_remesh(boundary, &mesh) == -UMBRA_EDESTROYED);
    CHECK(umbra_boundary_exchange(boundary, &arrays) == -UMBRA_EDESTROYED);
    CHECK(umbra_boundary_start_receive(boundary, UMBRA_SCOPE_LOCAL) == -UMBRA_EDESTROYED);
    CHECK(umbra_boundary_send(boundary, &arrays, UMBRA_SCOPE_ANY, &ready) == -UMBRA_EDESTROYED);
    CHECK(umbra_boundary_receive(boundary, &arrays, UMBRA_SCOPE_ANY, &ready) == -UMBRA_EDESTROYED && ready == 7);
    CHECK(umbra_boundary_set(boundary, &arrays, UMBRA_SCOPE_ANY) == -UMBRA_EDESTROYED);
    CHECK(umbra_boundary_remesh(boundary, &mesh) == -UMBRA_EDESTROYED);
    must(umbra_boundary_release(boundary));
    return NULL;
}

/* Slots that are to be larger than they may be, and slots that hold no head. */
static void *bounds(void *user)
{
    struct ring *ring = user;
    struct umbra_mesh mesh = mesh_of(ring, BLOCKS);
    struct umbra_boundary_options options = patient();
    umbra_boundary boundary;
    options.smallest_slot = ring->shift ? 0 : 129;
    options.largest_slot = ring->shift ? 63 : 128;
    CHECK(umbra_boundary_build(ring->fabric, ring->rank, &mesh, &options, &boundary) == -UMBRA_EINVAL);
    return NULL;
}

/* What comes of it that the first rank builds an exchange of this kind, and the other one another. */
static void *kinds(void *user)
{
    struct ring *ring = user;
    struct umbra_mesh mesh = mesh_of(ring, BLOCKS);
    struct umbra_boundary_options options = patient();
    umbra_boundary boundary;
    options.kind = ring->rank == 0 ? (ring->shift ? 256 : 255) : 1;
    ring->code = umbra_boundary_build(ring->fabric, ring->rank, &mesh, &options, &boundary);
    return NULL;
}

static void meshes(void)
{
    static struct ring rings[2];
    struct umbra_field field = {1, 0, 0.0, 0.0, 0.0};
    struct umbra_mesh mesh;
    umbra_fabric fabric;
    pthread_t threads[2];
    uint32_t rank, each;
    doing = "meshes that differ";
    for (rank = 0; rank < 2; rank++) {
        rings[rank].rank = rank;
        rings[rank].ranks = 2;
    }
    mesh = mesh_of(&rings[0], BLOCKS);
    for (each = 0; each < 3; each++) {
        must(umbra_fabric_create(&mesh, &field, 1, &fabric));
        for (rank = 0; rank < 2; rank++) {
            rings[rank].fabric = fabric;
            rings[rank].shift = each == 1;
            CHECK(pthread_create(&threads[rank], NULL, each < 2 ? bounds : differ, &rings[rank]) == 0);
        }
        for (rank = 0; rank < 2; rank++)
            CHECK(pthread_join(threads[rank], NULL) == 0);
        must(umbra_fabric_release(fabric));
    }
    doing = "kinds that differ";
    for (each = 0; each < 2; each++) {
        must(umbra_fabric_create(&mesh, &field, 1, &fabric));
        for (rank = 0; rank < 2; rank++) {
            rings[rank].fabric = fabric;
            rings[rank].shift = each;
            CHECK(pthread_create(&threads[rank], NULL, kinds, &rings[rank]) == 0);
        }
        for (rank = 0; rank < 2; rank++)
            CHECK(pthread_join(threads[rank], NULL) == 0);
        /* Both see that the plans differ, or the second one hears that the first has named no kind. */
        CHECK(rings[0].code == (each ? -UMBRA_EINVAL : -UMBRA_ECONFLICT) && rings[1].code == -UMBRA_ECONFLICT);
        must(umbra_fabric_release(fabric));
    }
}

int main(void)
{
    buffers();
    ends();
    offered();
    replies();
    seats();
    several();
    groups();
    sizes();
    meshes();
    puts("all is right");
    return 0;
}
