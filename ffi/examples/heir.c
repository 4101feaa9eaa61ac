/* A rank that forks a child off: every call on the session that the child inherits is refused there, and the parent goes on as if
 * there were no child.
 *
 * usage: heir CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Every rank of the job runs this program. It exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

/* A child that lives as long hangs. */
#define PATIENCE_S 60

/* What a rank has that it passes on to a child. */
struct estate {
    umbra_session session;
    umbra_group world;
    umbra_region region;
    umbra_read read;
    struct umbra_ticket ticket;
};

/* What the child is told of it. */
static void is_refused(const struct estate *estate)
{
    const umbra_session session = estate->session;
    umbra_group group = 0;
    umbra_read read = 0;
    struct umbra_session_seat seat = {.size = sizeof seat};
    umbra_member member = 0;
    uint64_t wakeups;
    uint32_t number, self = 0;
    size_t count;
    char text[16];
    int ended;

    doing = "a child";
    CHECK(umbra_session_world(session, &group) == -UMBRA_ESTALE && group == 0);
    CHECK(umbra_session_shadows(session, &number, 1, &count) == -UMBRA_ESTALE);
    CHECK(umbra_session_wakeups(session, &wakeups) == -UMBRA_ESTALE);
    CHECK(umbra_session_progress(session, 0) == -UMBRA_ESTALE);
    CHECK(umbra_session_sleep(session, STDIN_FILENO, &ended) == -UMBRA_ESTALE);
    CHECK(umbra_session_recover(session) == -UMBRA_ESTALE);
    CHECK(umbra_session_calls(session, &seat, &member) == -UMBRA_ESTALE && member == 0);
    CHECK(umbra_session_read(session, &estate->ticket, 0, text, sizeof text) == -UMBRA_ESTALE);
    CHECK(umbra_session_read_ahead(session, &estate->ticket, 0, sizeof text, NULL) == -UMBRA_ESTALE);
    CHECK(umbra_read_post(session, &estate->ticket, 0, sizeof text, &read) == -UMBRA_ESTALE && read == 0);
    CHECK(umbra_read_wait(estate->read, text, sizeof text) == -UMBRA_ESTALE);
    CHECK(umbra_group_create(session, 7, &self, 1, &group) == -UMBRA_ESTALE && group == 0);
    CHECK(umbra_group_size(estate->world, &number) == -UMBRA_ESTALE);
    CHECK(umbra_region_read(estate->region, 0, text, sizeof text) == -UMBRA_ESTALE);
    CHECK(umbra_region_revoke(estate->region) == -UMBRA_ESTALE);
    must(umbra_region_free(estate->region));
    must(umbra_group_free(estate->world));
    CHECK(umbra_session_leave(session) == -UMBRA_ESTALE);
}

int main(int argc, char **argv)
{
    struct umbra_join_options options = seat_of(argc, argv);
    struct estate estate;
    char text[16] = "";
    int status = 1;
    void *memory;
    pid_t pid;

    doing = "join";
    must(umbra_session_join(&options, &estate.session));
    must(umbra_session_world(estate.session, &estate.world));

    doing = "export";
    must(umbra_region_allocate(estate.session, 4096, &memory, &estate.region));
    strcpy(memory, "estate");
    must(umbra_region_export(estate.region, NULL));
    must(umbra_region_ticket(estate.region, &estate.ticket));
    must(umbra_read_post(estate.session, &estate.ticket, 0, sizeof text, &estate.read));

    doing = "fork";
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(PATIENCE_S);
        is_refused(&estate);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    doing = "go on";
    must(umbra_read_wait(estate.read, text, sizeof text));
    CHECK(strcmp(text, "estate") == 0);
    must(umbra_read_free(estate.read));
    memset(text, 0, sizeof text);
    must(umbra_session_read(estate.session, &estate.ticket, 0, text, sizeof text));
    CHECK(strcmp(text, "estate") == 0);
    must(umbra_region_free(estate.region));
    must(umbra_group_free(estate.world));

    doing = "leave";
    must(umbra_session_leave(estate.session));
    printf("rank %u: all is right\n", (unsigned)options.rank);
    return 0;
}
