// A broadcast down and a reduction of eight bytes up, timed where they start: bcast_ack BYTES CALLS.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int bytes = argc > 1 ? atoi(argv[1]) : 8, calls = argc > 2 ? atoi(argv[2]) : 1000, warm = calls / 10 + 10;
    char *data = calloc(1, bytes > 0 ? bytes : 1);
    double *took = calloc(calls > 0 ? calls : 1, sizeof *took), total = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int call = -warm; call < calls; call++) {
        long one = 1, all = 0;
        double start = MPI_Wtime();
        MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Reduce(&one, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        double end = MPI_Wtime();
        if (rank == 0 && all != size) MPI_Abort(MPI_COMM_WORLD, 3);
        if (call >= 0) total += took[call] = (end - start) * 1e6;
    }
    if (rank == 0 && calls > 0) {
        qsort(took, calls, sizeof *took, ascending);
        printf("%.3f %.3f\n", took[calls / 2], total / calls);
    }
    free(data);
    free(took);
    MPI_Finalize();
    return 0;
}
