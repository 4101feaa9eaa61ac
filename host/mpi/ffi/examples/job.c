/* A job of the processes that mpirun has started: look-ups and reads of memory without a configuration file.
 *
 * usage: mpirun -n RANKS job [NODES]     NODES: so many nodes of this machine, each with an agent
 *
 * The processes are numbered from behind by a communicator of the program. Those with even and those with odd numbers there make
 * a group each. Everybody is looked up in both, and reads memory of the next one.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LENGTH 4096

/* Whether process `rank` of a group is rank `expected` of the job. */
static void is(umbra_group group, uint32_t rank, uint32_t expected)
{
    uint32_t found, service_process;
    must(umbra_group_lookup(group, rank, &found, &service_process));
    CHECK(found == expected);
}

/* Reads what the next process has written into memory of its own, by the ticket that it sends. */
static void read_next(umbra_session session, MPI_Comm these, uint32_t rank, uint32_t ranks)
{
    int next = (int)((rank + 1) % ranks), before = (int)((rank + ranks - 1) % ranks);
    struct umbra_ticket own, theirs;
    umbra_region region;
    void *memory;
    char text[64], wanted[64];
    doing = "read memory of the next one";
    must(umbra_region_allocate(session, LENGTH, &memory, &region));
    sprintf(memory, "memory of rank %u", (unsigned)rank);
    must(umbra_region_export(region, NULL));
    must(umbra_region_ticket(region, &own));
    MPI_Sendrecv(&own, sizeof own, MPI_BYTE, before, 0, &theirs, sizeof theirs, MPI_BYTE, next, 0, these, MPI_STATUS_IGNORE);
    must(umbra_session_read(session, &theirs, 0, text, sizeof text));
    sprintf(wanted, "memory of rank %d", next);
    CHECK(strcmp(text, wanted) == 0);
    /* Nobody takes its memory back while it is read. */
    MPI_Barrier(these);
    must(umbra_region_free(region));
}

/* Neither another thread nor a forked child calls MPI for a job. */
static void *elsewhere(void *context)
{
    const umbra_mpi_job *job = context;
    umbra_session session;
    uint32_t member;
    size_t count;
    CHECK(umbra_mpi_job_members(*job, MPI_COMM_WORLD, &member, 1, &count) == -UMBRA_EINVAL);
    CHECK(told("another thread has made it"));
    CHECK(umbra_mpi_job_join(*job, &session) == -UMBRA_EINVAL);
    CHECK(umbra_mpi_job_end(*job) == -UMBRA_EINVAL);
    return NULL;
}

static void refused_elsewhere(umbra_mpi_job job)
{
    umbra_session session;
    uint32_t member;
    size_t count;
    pthread_t thread;
    pid_t child;
    int status;
    doing = "a job in another thread";
    CHECK(pthread_create(&thread, NULL, elsewhere, &job) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    doing = "a job in a child";
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(umbra_mpi_job_members(job, MPI_COMM_WORLD, &member, 1, &count) == -UMBRA_ESTALE &&
                      umbra_mpi_job_join(job, &session) == -UMBRA_ESTALE && umbra_mpi_job_end(job) == -UMBRA_ESTALE
                  ? 0
                  : 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void run(MPI_Comm these, uint32_t rank, uint32_t ranks, uint32_t nodes)
{
    uint32_t size, other, hosts[64], *members = malloc(ranks * sizeof *members);
    umbra_mpi_job job = 0;
    umbra_session session;
    umbra_group world, half;
    MPI_Comm halves;
    size_t count;

    CHECK(members != NULL);
    doing = "a job of no communicator, and one of too large a part";
    CHECK(umbra_mpi_job_start(MPI_COMM_NULL, 0, &job) == -UMBRA_EINVAL);
    CHECK(umbra_mpi_job_start(these, rank == 0 ? 1 << 16 : 0, &job) == (rank == 0 ? -UMBRA_EINVAL : -UMBRA_ECONFLICT));
    CHECK(told(rank == 0 ? "part 65536" : "rank 0 refuses a job") && job == 0);
    doing = "start";
    must(umbra_mpi_job_start(these, rank % nodes, &job));
    refused_elsewhere(job);
    doing = "join";
    must(umbra_mpi_job_join(job, &session));
    must(umbra_session_world(session, &world));
    must(umbra_group_size(world, &size));
    CHECK(size == ranks);
    for (other = 0; other < ranks; other++)
        is(world, other, other);
    must(umbra_group_hosts(world, hosts, 64, &count));
    CHECK(count == (nodes < ranks ? nodes : ranks));

    doing = "a group of a part";
    CHECK(MPI_Comm_split(these, (int)(rank % 2), (int)rank, &halves) == MPI_SUCCESS);
    must(umbra_mpi_job_members(job, halves, members, ranks, &count));
    CHECK(count == (ranks + 1 - rank % 2) / 2);
    must(umbra_group_create(session, 1 + rank % 2, members, count, &half));
    for (other = 0; other < count; other++)
        is(half, other, 2 * other + rank % 2);
    must(umbra_group_end(half));
    read_next(session, these, rank, ranks);

    doing = "leave";
    CHECK(umbra_mpi_job_join(world, &session) == -UMBRA_EKIND);
    /* Alone: who has no job has nobody to tell. */
    if (rank == 0)
        CHECK(umbra_mpi_job_members(world, these, members, ranks, &count) == -UMBRA_EKIND);
    must(umbra_group_free(world));
    must(umbra_session_leave(session));
    must(umbra_mpi_job_end(job));
    CHECK(umbra_mpi_job_end(job) == -UMBRA_ESTALE);
    if (rank == 0)
        CHECK(umbra_mpi_job_members(job, these, members, ranks, &count) == -UMBRA_ESTALE);
    MPI_Comm_free(&halves);
    free(members);
}

int main(int count, char **arguments)
{
    uint32_t nodes = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 1;
    int number, rank, ranks;
    MPI_Comm these;
    doing = "begin";
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -number, &these);
    MPI_Comm_rank(these, &rank);
    MPI_Comm_size(these, &ranks);
    CHECK(nodes > 0);
    run(these, (uint32_t)rank, (uint32_t)ranks, nodes);
    if (rank == 0)
        printf("%d ranks on %u nodes: a job of their own\n", ranks, (unsigned)nodes);
    MPI_Comm_free(&these);
    MPI_Finalize();
    return 0;
}
