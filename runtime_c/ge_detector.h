/* Decisions from a stream of scores: a moving average, two thresholds and a pause. The counterpart of glowembed/law/detector.py.
 *
 * No bundle contains it: `glowembed detect` writes a header with this text, followed by the settings for one bundle.
 * Call ge_detector_reset once, then ge_detector_feed with the score of each run or hop, in the integers that the bundle
 * returns. Scores must fit in int16.
 */
#ifndef GE_DETECTOR_H
#define GE_DETECTOR_H

#include <stdint.h>

#define GE_DETECTOR_AVERAGE_MAX 64

typedef struct {
    int32_t average; /* number of scores in a sum, 1..GE_DETECTOR_AVERAGE_MAX */
    int32_t on;      /* a detection begins with a sum of at least this */
    int32_t off;     /* a detection ends with a sum below this */
    int32_t pause;   /* number of scores after the beginning of a detection in which no other one begins */
    int32_t rest;    /* the score that stands for those before the first */
} ge_detector_settings;

typedef struct {
    int16_t scores[GE_DETECTOR_AVERAGE_MAX];
    int32_t sum;
    int32_t next;
    int32_t active; /* 1 during a detection */
    int32_t waiting;
} ge_detector;

static inline void ge_detector_reset(const ge_detector_settings *settings, ge_detector *detector) {
    for (int32_t i = 0; i < settings->average; i++) {
        detector->scores[i] = (int16_t)settings->rest;
    }
    detector->sum = settings->rest * settings->average;
    detector->next = 0;
    detector->active = 0;
    detector->waiting = 0;
}

/* Returns 1 if a detection begins with this score, else 0. */
static inline int32_t ge_detector_feed(const ge_detector_settings *settings, ge_detector *detector, int32_t score) {
    int32_t begins = 0;
    detector->sum += score - detector->scores[detector->next];
    detector->scores[detector->next] = (int16_t)score;
    detector->next = detector->next + 1 < settings->average ? detector->next + 1 : 0;
    if (detector->active != 0) {
        detector->active = detector->sum >= settings->off;
    } else if (detector->sum >= settings->on && detector->waiting == 0) {
        detector->active = 1;
        detector->waiting = settings->pause + 1;
        begins = 1;
    }
    detector->waiting -= detector->waiting > 0;
    return begins;
}

#endif
