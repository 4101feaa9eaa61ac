/* A rank whose service process is killed and started again: what it holds of groups goes on to name these groups, and no other, and
 * memory that could not be exported meanwhile is there, and can be exported later.
 *
 * usage: restarted CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Both ranks of the job run this program. Each writes a line when its service process is to be killed, and one when it is wanted
 * again, and goes on when it has got a line. It exits with 0 only if all of it is right.
 */
#include <stdio.h>

#include "check.h"
#include "umbra.h"

/* A group is of these members, by every way in which it is asked. */
static void is_of(umbra_group group, const uint32_t *members, uint32_t count)
{
    struct umbra_endpoint endpoint = {.size = sizeof endpoint};
    uint32_t ranks[2] = {0, 1}, world_ranks[2], service_processes[2], number, service_process, at;

    must(umbra_group_size(group, &number));
    CHECK(number == count);
    must(umbra_group_lookup_all(group, ranks, count, world_ranks, service_processes));
    for (at = 0; at < count; at++) {
        must(umbra_group_lookup(group, at, &number, &service_process));
        CHECK(number == members[at] && service_process == 0);
        must(umbra_group_endpoint(group, at, &endpoint));
        CHECK(endpoint.world_rank == members[at]);
        CHECK(world_ranks[at] == members[at] && service_processes[at] == 0);
    }
}

/* Says how far it is, and waits for a line. */
static void goes_on(void)
{
    int c;
    puts(doing);
    CHECK(fflush(stdout) == 0);
    do
        CHECK((c = getchar()) != EOF);
    while (c != '\n');
}

int main(int argc, char **argv)
{
    struct umbra_join_options options = seat_of(argc, argv);
    const uint32_t both[2] = {0, 1}, *self = &options.rank;
    umbra_group world, alone, pair, again;
    umbra_session session;
    char text[16] = "some content", copy[sizeof text];
    struct umbra_ticket ticket;
    umbra_region region;
    uint32_t before, after;
    void *memory;

    /* For what must fail: long enough for all the rest. */
    options.timeout_ms = 5000;
    doing = "join";
    must(umbra_session_join(&options, &session));
    must(umbra_session_world(session, &world));

    doing = "make groups of one number";
    must(umbra_group_create(session, 1, self, 1, &alone));
    must(umbra_group_create(session, 1, both, 2, &pair));
    /* Its place is free for another group, in each life of the service process. */
    if (options.rank == 0)
        must(umbra_group_end(alone));
    must(umbra_group_generation(pair, &before));
    must(umbra_region_allocate(session, sizeof text, &memory, &region));
    strcpy(memory, text);
    goes_on();

    doing = "export in vain";
    /* Sees that the link has ended. */
    must(umbra_session_progress(session, 10));
    CHECK(umbra_region_export(region, NULL) < 0);
    CHECK(strcmp(memory, text) == 0);
    must(umbra_region_read(region, 0, copy, sizeof copy));
    CHECK(strcmp(copy, text) == 0);
    CHECK(umbra_region_ticket(region, &ticket) == -UMBRA_EREGION);
    goes_on();

    doing = "recover";
    must(umbra_session_recover(session));
    is_of(world, both, 2);
    is_of(pair, both, 2);
    if (options.rank == 1)
        is_of(alone, self, 1);
    must(umbra_group_generation(pair, &after));
    CHECK(before == after);

    doing = "export";
    must(umbra_region_export(region, NULL));
    CHECK(strcmp(memory, text) == 0);
    must(umbra_region_ticket(region, &ticket));
    must(umbra_session_read(session, &ticket, 0, copy, sizeof copy));
    CHECK(strcmp(copy, text) == 0);
    must(umbra_region_free(region));

    doing = "make a group anew";
    must(umbra_group_end(pair));
    CHECK(umbra_group_size(pair, &after) == -UMBRA_ESTALE);
    must(umbra_group_create(session, 1, both, 2, &again));
    is_of(again, both, 2);

    doing = "leave";
    must(umbra_session_leave(session));
    return 0;
}
