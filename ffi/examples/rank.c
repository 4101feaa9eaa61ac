/* A rank in C: joins a job, asks who is where, lets its memory be read, reads that of the others, and leaves.
 *
 * usage: rank CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Every rank of the job runs this program. It checks what it is told and exits with 0 only if all of it is right. Ranks
 * hand each other tickets as files beside the sockets; a real program sends them with its own messages. The same
 * in Rust: host/examples/rank.rs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

/* That a process can have. */
#define HANDLES 65536

/* Reads the memory of all ranks: one after the other, and all at once. */
static void read_everybody(umbra_session session, const char *directory, uint32_t size)
{
    struct umbra_ticket ticket;
    umbra_read *reads = malloc(size * sizeof *reads);
    char want[64], text[64];
    uint32_t i, owner;
    uint64_t len;
    int done;

    CHECK(reads != NULL);
    for (i = 0; i < size; i++) {
        pass_ticket(directory, i, "rb", &ticket);
        must(umbra_ticket_describe(&ticket, &owner, &len));
        CHECK(owner == i && len == 4096);
        owner = 77;
        CHECK(umbra_ticket_describe(&ticket, &owner, NULL) == -UMBRA_EINVAL && owner == 77);
        snprintf(want, sizeof want, "memory of rank %u", (unsigned)i);
        must(umbra_session_read(session, &ticket, 0, text, sizeof text));
        CHECK(strcmp(text, want) == 0);
        CHECK(umbra_session_read(session, &ticket, 4095, text, 2) == -UMBRA_EBOUNDS);
        must(umbra_read_post(session, &ticket, 10, sizeof text, &reads[i]));
        ticket.bytes[40] ^= 1;
        CHECK(umbra_session_read(session, &ticket, 0, text, 1) == -UMBRA_EMALFORMED);
    }
    for (i = 0; i < size; i++) {
        snprintf(want, sizeof want, "rank %u", (unsigned)i);
        CHECK(umbra_read_poll(reads[i], text, sizeof text - 1, &done) == -UMBRA_ESIZE);
        must(umbra_read_poll(reads[i], text, sizeof text, &done));
        if (!done)
            must(umbra_read_wait(reads[i], text, sizeof text));
        CHECK(strcmp(text, want) == 0);
        strcpy(text, "kept");
        CHECK(umbra_read_poll(reads[i], text, sizeof text, NULL) == -UMBRA_EINVAL && strcmp(text, "kept") == 0);
        must(umbra_read_free(reads[i]));
        CHECK(umbra_read_wait(reads[i], text, sizeof text) == -UMBRA_ESTALE);
    }
    free(reads);
}

/* A ticket that nobody's memory is behind says more bytes than there is memory for, and is refused as such. */
static void read_too_much(umbra_session session, const char *directory, uint32_t size)
{
    struct umbra_ticket ticket;
    umbra_read read = 77;
    char text[1] = "";
    uint32_t owner;
    uint64_t len;

    pass_ticket(directory, size, "rb", &ticket);
    must(umbra_ticket_describe(&ticket, &owner, &len));
    CHECK(umbra_read_post(session, &ticket, 0, (size_t)len, &read) == -UMBRA_ESYSTEM && read == 77);
    CHECK(umbra_session_read(session, &ticket, 0, text, (size_t)len) == -UMBRA_ESYSTEM);
    CHECK(umbra_read_post(session, &ticket, 1, (size_t)len + 1, &read) == -UMBRA_EBOUNDS && read == 77);
}

/* Memory that does not change may be read ahead: of other memory nothing is said. This rank stands for any other one here. */
static void read_constant(umbra_session session)
{
    struct umbra_ticket ticket;
    umbra_region region;
    uint64_t said = 0, key = 0;
    void *memory;
    char text[64];

    must(umbra_region_allocate(session, 4096, &memory, &region));
    snprintf(memory, 4096, "constant memory");
    must(umbra_region_export_constant(region, &key));
    CHECK(key != 0 && umbra_region_export(region, NULL) == -UMBRA_EINVAL);
    must(umbra_region_ticket(region, &ticket));
    must(umbra_session_read_ahead(session, &ticket, 0, sizeof text, &said));
    CHECK(said == sizeof text);
    CHECK(umbra_session_read_ahead(session, &ticket, 4095, 2, &said) == -UMBRA_EBOUNDS && said == sizeof text);
    must(umbra_session_read(session, &ticket, 0, text, sizeof text));
    CHECK(strcmp(text, "constant memory") == 0);
    must(umbra_region_revoke(region));
    CHECK(umbra_session_read(session, &ticket, 0, text, 1) == -UMBRA_EREVOKED);
    must(umbra_region_export(region, NULL));
    must(umbra_region_ticket(region, &ticket));
    must(umbra_session_read_ahead(session, &ticket, 0, sizeof text, &said));
    CHECK(said == 0);
    must(umbra_region_free(region));
}

/* What was begun for a handle that is not to be had is undone: reads, of which a rank may have 1024 at once, and groups. */
static void without_handles(umbra_session session, const struct umbra_ticket *ticket, uint32_t rank)
{
    umbra_group *worlds = malloc(HANDLES * sizeof *worlds), alone = 0;
    umbra_read read = 0;
    size_t count = 0, i;
    int code;
    CHECK(worlds != NULL);
    while (umbra_session_world(session, &worlds[count]) == 0)
        CHECK(++count < HANDLES);
    for (i = 0; i < 1100; i++)
        CHECK(umbra_read_post(session, ticket, 0, 1, &read) == -UMBRA_ESYSTEM && read == 0);
    CHECK(umbra_group_create(session, 3, &rank, 1, &alone) == -UMBRA_ESYSTEM && alone == 0);
    for (i = 0; i < count; i++)
        must(umbra_group_free(worlds[i]));
    free(worlds);
    /* Left, and so not joined already; as long as that generation ends it is not to be had anew. */
    code = umbra_group_create(session, 3, &rank, 1, &alone);
    CHECK((code == 0) == (alone != 0) && (code == 0 || code == -UMBRA_EGENERATION));
    if (code == 0)
        must(umbra_group_end(alone));
}

int main(int argc, char **argv)
{
    struct umbra_ticket ticket;
    struct umbra_join_options options = seat_of(argc, argv);
    struct umbra_endpoint endpoint;
    umbra_session session;
    umbra_group world, row, all;
    umbra_region region;
    uint32_t rank, per_host, hosts, host, i, number, service_process, *members, *everybody;
    uint32_t some[100], processes[100], services[100];
    uint64_t key = 0, before, after;
    size_t count;
    void *memory;
    char text[64], name[512];
    int ends[2], ended;

    rank = options.rank;
    host = options.host;
    per_host = options.local_size;
    hosts = options.world_size / per_host;

    doing = "join";
    /* Nothing is begun without a place for its handle. */
    CHECK(umbra_session_join(&options, NULL) == -UMBRA_EINVAL);
    /* Ranks that were compiled before there was silence_ms say a smaller size, and what lies behind it is not read. */
    if (rank % 2 == 0)
        options.silence_ms = 60000;
    else {
        options.size = offsetof(struct umbra_join_options, silence_ms);
        options.silence_ms = 1;
    }
    must(umbra_session_join(&options, &session));
    CHECK(umbra_session_world(session, NULL) == -UMBRA_EINVAL);
    must(umbra_session_world(session, &world));

    doing = "look up";
    must(umbra_group_size(world, &number));
    CHECK(number == per_host * hosts);
    for (i = 0; i < per_host * hosts; i++) {
        must(umbra_group_lookup(world, i, &number, &service_process));
        CHECK(number == i);
        must(umbra_group_shadow(world, i, 0, &number));
        CHECK(number == service_process);
        must(umbra_group_host_of(world, i, &number));
        CHECK(number == i / per_host);
        must(umbra_group_same_host(world, rank, i, &number));
        CHECK(number == (i / per_host == host));
    }
    for (i = 0; i < 100; i++)
        some[i] = i % (per_host * hosts);
    must(umbra_group_lookup_all(world, some, 100, processes, services));
    for (i = 0; i < 100; i++) {
        must(umbra_group_lookup(world, some[i], &number, &service_process));
        CHECK(processes[i] == number && services[i] == service_process);
    }
    some[99] = per_host * hosts;
    CHECK(umbra_group_lookup_all(world, some, 100, processes, services) == -UMBRA_ERANK);
    CHECK(umbra_group_lookup_all(world, some, 99, NULL, services) == -UMBRA_EINVAL);
    must(umbra_group_lookup_all(world, NULL, 0, NULL, NULL));
    number = 77;
    CHECK(umbra_group_lookup(world, 0, &number, NULL) == -UMBRA_EINVAL && number == 77);
    count = 77;
    CHECK(umbra_group_hosts(world, NULL, 9, &count) == -UMBRA_EINVAL && count == 77);
    endpoint.size = sizeof endpoint;
    must(umbra_group_endpoint(world, rank, &endpoint));
    CHECK(endpoint.world_rank == rank && endpoint.host == host && endpoint.shadows == 1);
    CHECK(umbra_group_lookup(world, per_host * hosts, &number, &service_process) == -UMBRA_ERANK);

    doing = "list";
    CHECK(umbra_group_ranks_on(world, host, NULL, 0, &count) == -UMBRA_ESIZE);
    CHECK(count == per_host);
    members = malloc(count * sizeof *members);
    CHECK(members != NULL);
    must(umbra_group_ranks_on(world, host, members, count, &count));
    for (i = 0; i < per_host; i++)
        CHECK(members[i] == host * per_host + i);

    doing = "sleep";
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    must(umbra_session_progress(session, 0));
    must(umbra_session_progress(session, 1));
    ended = 77;
    CHECK(umbra_session_sleep(session, -1, &ended) == -UMBRA_EINVAL && ended == 77);
    CHECK(umbra_session_sleep(session, ends[0], NULL) == -UMBRA_EINVAL);
    must(umbra_session_sleep(session, ends[0], &ended));
    CHECK(ended == 0);
    must(umbra_session_recover(session));
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    ended = 77;
    CHECK(umbra_session_sleep(session, ends[0], &ended) == -UMBRA_ESYSTEM && ended == 77);

    doing = "create a group";
    CHECK(umbra_group_create(session, 1, members, per_host, NULL) == -UMBRA_EINVAL);
    must(umbra_group_create(session, 1, members, per_host, &row));
    must(umbra_group_lookup(row, rank % per_host, &number, &service_process));
    CHECK(number == rank);

    doing = "export";
    memory = NULL;
    CHECK(umbra_region_allocate(session, 4096, &memory, NULL) == -UMBRA_EINVAL && memory == NULL);
    CHECK(umbra_region_allocate(session, 4096, NULL, &region) == -UMBRA_EINVAL);
    must(umbra_region_allocate(session, 4096, &memory, &region));
    snprintf(memory, 4096, "memory of rank %u", (unsigned)rank);
    must(umbra_region_export(region, &key));
    CHECK(key != 0);
    must(umbra_session_wakeups(session, &before));
    must(umbra_region_read(region, 0, text, sizeof text));
    CHECK(strncmp(text, memory, sizeof text) == 0);
    CHECK(umbra_region_read(region, 4095, text, 2) == -UMBRA_EBOUNDS);
    CHECK(umbra_region_read(region, UINT64_MAX, text, 2) == -UMBRA_EBOUNDS);
    must(umbra_session_wakeups(session, &after));
    CHECK(before == after);

    doing = "read other ranks";
    must(umbra_region_ticket(region, &ticket));
    pass_ticket(argv[3], rank, "wb", &ticket);
    everybody = malloc(per_host * hosts * sizeof *everybody);
    CHECK(everybody != NULL);
    for (i = 0; i < per_host * hosts; i++)
        everybody[i] = i;
    /* A group that is full: everybody has put its ticket down. One that has ended: everybody has read. */
    must(umbra_group_create(session, 2, everybody, per_host * hosts, &all));
    read_everybody(session, argv[3], per_host * hosts);
    CHECK(umbra_read_post(session, &ticket, 0, 1, NULL) == -UMBRA_EINVAL);
    without_handles(session, &ticket, rank);
    read_too_much(session, argv[3], per_host * hosts);
    must(umbra_group_end(all));

    doing = "read constant memory";
    read_constant(session);
    snprintf(name, sizeof name, "%s/ticket.%u", argv[3], (unsigned)rank);
    CHECK(remove(name) == 0);

    doing = "revoke";
    must(umbra_region_revoke(region));
    CHECK(umbra_session_read(session, &ticket, 0, text, 1) == -UMBRA_EREVOKED);
    CHECK(umbra_region_ticket(region, &ticket) == -UMBRA_EREGION);
    CHECK(umbra_region_revoke(region) == -UMBRA_EREGION);
    must(umbra_region_export(region, NULL));
    must(umbra_region_free(region));
    CHECK(umbra_region_free(region) == -UMBRA_ESTALE);

    doing = "end the group";
    must(umbra_group_end(row));
    CHECK(umbra_group_lookup(row, 0, &number, &service_process) == -UMBRA_ESTALE);
    CHECK(umbra_group_size(session, &number) == -UMBRA_EKIND);
    must(umbra_group_free(world));

    doing = "leave";
    must(umbra_session_leave(session));
    CHECK(umbra_session_leave(session) == -UMBRA_ESTALE);
    CHECK(umbra_session_leave(0) == -UMBRA_ESTALE);

    free(everybody);
    free(members);
    printf("rank %u: all is right\n", (unsigned)rank);
    return 0;
}
