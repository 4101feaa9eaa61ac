/* umbra_mpi.h: what Umbra does over MPI, on top of umbra.h.
 *
 * A program over MPI includes this header and links libumbra_mpi_ffi in place of libumbra_ffi: it has all functions of both
 * headers, and one set of handles. It is built with one MPI library (by MPICC), and serves programs of that library only.
 *
 * What is made here is used by the functions of umbra.h: an umbra_fabric by umbra_boundary_build, and what that builds by all of
 * umbra_boundary_*; an umbra_session by umbra_session_* and umbra_group_*. Errors, details and handles are as there. Besides:
 *
 * - MPI is initialized before, by the program, with any level of threads. What is made over MPI is used and released by the
 *   thread that made it, which may call MPI: in another thread it is -UMBRA_EINVAL, in a child that was forked off -UMBRA_ESTALE.
 *   So is a call that takes a communicator, in a child of a process that has made one.
 * - It is released before MPI_Finalize. Before MPI_Init each call is -UMBRA_ENOTREADY, after MPI_Finalize -UMBRA_EDESTROYED, and
 *   what was not released stays where it is until the process ends.
 * - Errors of MPI are returned, as -UMBRA_ESYSTEM; the detail has the name of the call and its code. For that MPI_ERRORS_RETURN
 *   becomes the handler of errors of MPI_COMM_WORLD and of each communicator that is handed in: the program checks its own calls.
 * - Each wait of umbra_boundary_* has the deadline of its options, and names who is missing. Calls that all processes of a
 *   communicator make together, which say so here, have none; where one of them cannot go on for what its program handed in, all
 *   are told at once: it by its own code, the others by -UMBRA_ECONFLICT. Whoever hands in a communicator or a handle that names
 *   nothing, or may not use it, has nobody to tell: it is refused, and the others wait for it. So they do in umbra_mpi_job_end.
 * - A program whose rank is missing ends by MPI_Abort: to finalize would wait for that rank.
 */
#ifndef UMBRA_MPI_H
#define UMBRA_MPI_H

#include <mpi.h>

#include "umbra.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- boundary exchange between the processes of a communicator ---- */

#define UMBRA_MPI_SLOT 0            /* one message a peer, received where the receiver has memory for it */
#define UMBRA_MPI_RMA 1             /* one message a peer, read out of a window of the sender (MPI_Rget), who tells its length in one
                                     * word; in some libraries that goes on only while the sender calls MPI. -UMBRA_ESYSTEM: the
                                     * windows of this library are no memory that both sides see */
#define UMBRA_MPI_NODES 2           /* as UMBRA_MPI_SLOT between nodes, and memory that all share within a node, which costs less
                                     * than messages; a process of the node that was killed is named soon. -UMBRA_ESYSTEM of a build, on
                                     * all: a process has no memory in common with its node, the detail says which and why */

/* Makes what the ranks of a mesh exchange these fields over: rank N of the mesh is process N of the communicator, and the mesh
 * has as many ranks. All processes of it call this, with the same mesh, fields and transport, and it waits for all. The program
 * may send on its communicator what it likes, and may free it: a duplicate is made, which stays until the process ends, and two
 * more communicators for UMBRA_MPI_NODES. A library has some thousands of them, so fabrics and jobs are not for a loop.
 * -UMBRA_EINVAL: the communicator is null or one between two groups, or its size is another one than that of the mesh.
 *
 * umbra_boundary_build takes the fabric and the rank of this process in the communicator (another one is -UMBRA_ERANK), and waits
 * for all until its deadline. One exchange at a time can be built on a fabric (-UMBRA_EINUSE), and when that is released, another
 * one, also after one that has failed: fabrics of this kind need not be made anew. But if a rank did not come to a build before
 * the deadline (-UMBRA_ETIMEOUT), each later build on this fabric is -UMBRA_ETIMEOUT with the same words. Exchanges that are open
 * at once have a fabric each. umbra_fabric_descriptor is -UMBRA_EKIND: there is no memory to hand on. */
int umbra_mpi_fabric_create(MPI_Comm communicator, const struct umbra_mesh *mesh, const struct umbra_field *fields, size_t count,
                            uint32_t transport, umbra_fabric *fabric);

/* Releases the handle, and gives back the window of UMBRA_MPI_RMA. All processes of the communicator call this, and it waits for
 * all. -UMBRA_EINUSE here, and -UMBRA_ECONFLICT on the others: an exchange on it was not released, and nothing has changed.
 * umbra_fabric_release waits for nobody, and leaves the window until the process ends. */
int umbra_mpi_fabric_free(umbra_fabric fabric);

/* ---- a job of the processes of a communicator ---- */

typedef uint64_t umbra_mpi_job;

/* Finds out which processes share a node, and starts an agent on each (the program that UMBRA_AGENT in the environment names,
 * else umbra-agent beside the program, else on the path), with a new secret. No configuration file is needed. All processes call this, and it waits
 * for all. Of the processes of a machine those are one node that say the same part (65 535 at most): 0, or one of several nodes on
 * a machine. -UMBRA_ESYSTEM: an agent did not start, here or elsewhere, or said nothing for a minute, or a directory for its files
 * cannot be made. The agents end with the thread that started them, of the first process of each node. Three communicators stay
 * until the process ends. */
int umbra_mpi_job_start(MPI_Comm communicator, uint32_t part, umbra_mpi_job *job);

/* Joins the job, as umbra_session_join: the rank is that of this process in the communicator. */
int umbra_mpi_job_join(umbra_mpi_job job, umbra_session *session);

/* The ranks in the job of the processes of another communicator, in their order: what umbra_group_create takes. All processes of
 * that communicator call this, and all are of the job. */
int umbra_mpi_job_members(umbra_mpi_job job, MPI_Comm communicator, uint32_t *ranks, size_t capacity, size_t *count);

/* Ends the job after all processes have left it (umbra_session_leave), and the agents with it. All processes call this, and it
 * waits for all. Releases the handle in any case. */
int umbra_mpi_job_end(umbra_mpi_job job);

#ifdef __cplusplus
}
#endif

#endif
