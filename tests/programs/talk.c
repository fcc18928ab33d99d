// Two processes that send each other numbered messages over UDP: `talk server PORT COUNT` answers each message with the next number, `talk
// client PORT COUNT` sends requests. Messages are identified by the functions that are called before and after them.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

__attribute__((noinline)) void sent(uint64_t id) { __asm__ volatile("" : : "r"(id) : "memory"); }

__attribute__((noinline)) void received(uint64_t id) { __asm__ volatile("" : : "r"(id) : "memory"); }

// The number that only signals that this side is there.
static const uint64_t HELLO = UINT64_MAX;

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int is_server = strcmp(argv[1], "server") == 0;
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uint64_t count = strtoull(argv[3], NULL, 10), id;
    int channel = socket(AF_INET, SOCK_DGRAM, 0);
    if (is_server) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        if (bind(channel, (struct sockaddr *)&there, sizeof there) != 0) return 1;
        for (uint64_t answered = 0; answered < count;) {
            if (recvfrom(channel, &id, sizeof id, 0, (struct sockaddr *)&peer, &length) != sizeof id) return 1;
            if (id != HELLO) {
                received(id);
                sent(++id);
                answered++;
            }
            if (sendto(channel, &id, sizeof id, 0, (struct sockaddr *)&peer, length) != sizeof id) return 1;
        }
        return 0;
    }
    struct timeval patience = {.tv_usec = 50000};
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(channel, (struct sockaddr *)&there, sizeof there) != 0) return 1;
    for (int tries = 0;; tries++) {
        if (tries == 1000) return 1;
        id = HELLO;
        // Both fail as long as no process listens.
        if (send(channel, &id, sizeof id, 0) == sizeof id && recv(channel, &id, sizeof id, 0) == sizeof id) break;
        usleep(50000);
    }
    patience = (struct timeval){.tv_sec = 30};
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (uint64_t asked = 0; asked < count; asked++) {
        id = 2 * asked;
        sent(id);
        if (send(channel, &id, sizeof id, 0) != sizeof id) return 1;
        // An answer to an earlier hello may still be on its way.
        do {
            if (recv(channel, &id, sizeof id, 0) != sizeof id) return 1;
        } while (id == HELLO);
        received(id);
    }
    return 0;
}
