/* A rank that has the member that lives at its agent keep a value for it.
 *
 * usage: seat CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Every rank of the job runs this program. It exits with 0 only if all of it is right.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

/* The member that lives at the agent for this rank keeps a value, and tells it. */
static void keep_a_value(umbra_session session, uint32_t local_rank)
{
    struct umbra_session_seat seat = {0};
    struct umbra_gpc_call call;
    struct umbra_gpc_answer answer;
    umbra_member member = 0, none = 0;
    unsigned char told[8 + sizeof "a value"];
    uint32_t head[2];

    CHECK(umbra_session_calls(session, &seat, &member) == -UMBRA_ESTRUCT);
    seat.size = sizeof seat;
    CHECK(umbra_session_calls(session, &seat, NULL) == -UMBRA_EINVAL);
    must(umbra_session_calls(session, &seat, &member));
    CHECK(seat.resident == seat.first + local_rank && seat.node == seat.resident + seat.residents);
    CHECK(seat.first % seat.members == 0 && seat.first / seat.members < seat.places);
    CHECK(umbra_session_calls(session, &seat, &none) == -UMBRA_EINUSE && none == 0);

    memset(&call, 0, sizeof call);
    call.size = sizeof call;
    call.function = "umbra.broadcast";
    call.members = &seat.resident;
    call.count = 1;
    call.data = "a value";
    call.data_length = sizeof "a value";
    call.mode = UMBRA_GPC_COORDINATE;
    call.timeout_ms = 30000;
    must(umbra_gpc_exec(member, &call, NULL));
    call.function = call.callback = "umbra.gather";
    call.data_length = 0;
    call.mode |= UMBRA_GPC_ORDERED;
    call.reply_data = sizeof told;
    memset(&answer, 0, sizeof answer);
    answer.size = sizeof answer;
    answer.data = told;
    answer.data_capacity = sizeof told;
    must(umbra_gpc_exec(member, &call, &answer));
    memcpy(head, told, sizeof head);
    CHECK(answer.data_length == sizeof told && head[0] == seat.resident && head[1] == sizeof "a value");
    CHECK(memcmp(told + sizeof head, "a value", sizeof "a value") == 0);
    must(umbra_gpc_leave(member));
}

int main(int argc, char **argv)
{
    struct umbra_join_options options = seat_of(argc, argv);
    umbra_session session;

    doing = "join";
    must(umbra_session_join(&options, &session));

    doing = "call";
    keep_a_value(session, options.local_rank);

    doing = "leave";
    must(umbra_session_leave(session));
    printf("rank %u: all is right\n", (unsigned)options.rank);
    return 0;
}
