/* Threads that share a product. They are those of OpenMP that PyTorch has loaded and computes with: others would wait for
   them, as they go on looking for work for a while. Where there are none one thread does all. */

#ifndef NNET3_TEAM
#define NNET3_TEAM

#include <stdint.h>

#if defined(__linux__)
#define WEAK __attribute__((weak))
extern WEAK void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
extern WEAK int omp_get_thread_num(void), omp_get_num_threads(void);
#define HAS_TEAM (GOMP_parallel && omp_get_thread_num && omp_get_num_threads)
#else
#define HAS_TEAM 0
#endif

/* Does share `number` of so many `shares` of a work. */
typedef void Share(const void *work, int64_t number, int64_t shares);

typedef struct { Share *share; const void *work; int64_t shares; } Team;

#if defined(__linux__)
static void do_shares(void *given) {
    const Team *team = given;
    for (int64_t number = omp_get_thread_num(); number < team->shares; number += omp_get_num_threads())
        team->share(team->work, number, team->shares);
}
#endif

static void by_team(Share *share, const void *work, int64_t threads) {
#if defined(__linux__)
    if (threads > 1 && HAS_TEAM) {
        Team team = {share, work, threads};
        GOMP_parallel(do_shares, &team, (unsigned)threads, 0);
        return;
    }
#else
    (void)threads;
#endif
    share(work, 0, 1);
}

#endif
