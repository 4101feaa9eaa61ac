/* A set of channels in the loop of a program that waits in epoll: a thread rings a bell when a channel is ready.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define CHANNELS 3
#define MESSAGES 500
#define PATIENCE_MS 60000

struct ringing {
    umbra_channel_set set;
    umbra_bell bell;
    int code;
};

static void *ring(void *of)
{
    struct ringing *ringing = of;
    ringing->code = umbra_channel_set_ring(ringing->set, ringing->bell);
    return NULL;
}

static void *talk(void *channels)
{
    uint64_t n;
    for (n = 0; n < MESSAGES; n++)
        must(umbra_channel_send(((umbra_channel *)channels)[n % CHANNELS], &n, sizeof n, n, 0, PATIENCE_MS));
    return NULL;
}

int main(void)
{
    struct umbra_channel_options options;
    struct epoll_event event;
    umbra_channel channels[CHANNELS];
    struct ringing ringing;
    pthread_t ringer, sender;
    uint64_t received = 0, sum = 0;
    int descriptor = -1, loop = epoll_create1(0), i;

    doing = "set up";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 4;
    for (i = 0; i < CHANNELS; i++)
        must(umbra_channel_create(&options, &channels[i]));
    must(umbra_channel_set_create(channels, CHANNELS, UMBRA_POLL_IN, &ringing.set));
    CHECK(umbra_bell_create(&ringing.bell, NULL) == -UMBRA_EINVAL);
    must(umbra_bell_create(&ringing.bell, &descriptor));
    CHECK(umbra_channel_set_ring(ringing.bell, ringing.bell) == -UMBRA_EKIND);
    CHECK(umbra_channel_set_ring(ringing.set, ringing.set) == -UMBRA_EKIND);
    CHECK(umbra_bell_rearm(channels[0]) == -UMBRA_EKIND);
    CHECK(loop >= 0 && descriptor >= 0);
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    CHECK(epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event) == 0);
    CHECK(epoll_wait(loop, &event, 1, 0) == 0);
    CHECK(pthread_create(&ringer, NULL, ring, &ringing) == 0);
    CHECK(epoll_wait(loop, &event, 1, 50) == 0);

    doing = "messages";
    CHECK(pthread_create(&sender, NULL, talk, channels) == 0);
    while (received < MESSAGES) {
        uint64_t n = 0, hints = 0;
        size_t index = 0, length = 0;
        int what = 0, code;
        CHECK(epoll_wait(loop, &event, 1, PATIENCE_MS) == 1);
        /* First all that there is, then the ring is taken back. */
        while ((code = umbra_channel_set_poll(ringing.set, 0, 0, &index, &what)) == 0) {
            CHECK(what == UMBRA_POLL_IN && index < CHANNELS);
            must(umbra_channel_receive(channels[index], &n, sizeof n, 0, 0, &length, &hints));
            CHECK(length == sizeof n && n == hints && n % CHANNELS == index);
            received += 1;
            sum += n;
        }
        CHECK(code == -UMBRA_EEMPTY || code == -UMBRA_ETIMEOUT);
        must(umbra_bell_rearm(ringing.bell));
    }
    CHECK(sum == (uint64_t)MESSAGES * (MESSAGES - 1) / 2);
    CHECK(pthread_join(sender, NULL) == 0);

    doing = "a channel that ends";
    must(umbra_channel_destroy(channels[1]));
    CHECK(epoll_wait(loop, &event, 1, PATIENCE_MS) == 1);

    doing = "the end";
    must(umbra_bell_end(ringing.bell));
    CHECK(pthread_join(ringer, NULL) == 0 && ringing.code == 0);
    CHECK(umbra_bell_end(ringing.bell) == -UMBRA_ESTALE);
    CHECK(umbra_channel_set_ring(ringing.set, ringing.bell) == -UMBRA_ESTALE);
    must(umbra_channel_set_release(ringing.set));
    for (i = 0; i < CHANNELS; i++)
        must(umbra_channel_detach(channels[i]));
    close(loop);
    printf("all is right\n");
    return 0;
}
