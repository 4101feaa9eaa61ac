/* What the examples do with an answer: go on if it is right, else say what went wrong, and end with 1. */
#ifndef UMBRA_EXAMPLES_CHECK_H
#define UMBRA_EXAMPLES_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umbra.h"

/* How a program ends after a complaint, about a call that failed with this code, or 1. */
#ifndef END
#define END(code) exit(1)
#endif

/* What is being done, or which process does it: opens every complaint. */
static const char *doing = "";

/* Ends the program with the whole story if a call failed. */
static void must(int code)
{
    char detail[512] = "";
    if (code == 0)
        return;
    umbra_error_detail(detail, sizeof detail, NULL);
    fprintf(stderr, "%s: error %d: %s\n", doing, -code, detail);
    END(-code);
}

static void check(int holds, const char *statement)
{
    if (holds)
        return;
    fprintf(stderr, "%s: not so: %s\n", doing, statement);
    END(1);
}

/* Ends the program unless a statement holds. */
#define CHECK(statement) check((statement), #statement)

/* Writes the ticket of a rank into the file of that rank, or reads it from there. */
static inline void pass_ticket(const char *directory, uint32_t rank, const char *mode, struct umbra_ticket *ticket)
{
    char name[512];
    FILE *file;
    size_t moved;

    snprintf(name, sizeof name, "%s/ticket.%u", directory, (unsigned)rank);
    file = fopen(name, mode);
    CHECK(file != NULL);
    moved = *mode == 'w' ? fwrite(ticket, sizeof *ticket, 1, file) : fread(ticket, sizeof *ticket, 1, file);
    CHECK(fclose(file) == 0 && moved == 1);
}

/* Where a rank sits, by the arguments that all programs of ranks take; ends one that got others. */
static inline struct umbra_join_options seat_of(int argc, char **argv)
{
    struct umbra_join_options options;
    uint32_t rank, per_host;

    if (argc != 7) {
        fprintf(stderr, "usage: %s CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS\n", argv[0]);
        exit(2);
    }
    rank = (uint32_t)strtoul(argv[4], NULL, 10);
    per_host = (uint32_t)strtoul(argv[5], NULL, 10);

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.config = argv[1];
    options.secret = argv[2];
    options.sockets = argv[3];
    options.rank = rank;
    options.world_size = per_host * (uint32_t)strtoul(argv[6], NULL, 10);
    options.host = rank / per_host;
    options.local_rank = rank % per_host;
    options.local_size = per_host;
    options.timeout_ms = 30000;
    return options;
}

#endif
