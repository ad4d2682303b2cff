/* Answers EEMBC's EnergyRunner, the tool of MLPerf Tiny, in its performance and accuracy modes. Both sides exchange
 * lines of text, which benchmark/api of github.com/mlcommons/tiny describes and docs/mlperf.md lists. A command ends
 * with a percent sign, its answer with m-ready. */
#include <string.h>

#include "ge_board.h"
#include "ge_mlperf.h"
#include "harness.h"
#include "line.h"

#define COMMAND_BYTES 80u
#define WORDS 3u
#define PRINTED 8u /* bytes in one line that db print writes */
#define WARMUPS 10u

typedef struct {
    const ge_bundle *bundle;
    uint64_t ticks; /* since the start; the counter may have only 32 bits, so read it often */
    uint32_t ticks_seen;
    uint32_t expected, loaded; /* bytes of the stimulus */
    uint32_t length;
    char command[COMMAND_BYTES + 1u];
    uint8_t stimulus[GE_MLPERF_STIMULUS_BYTES];
    uint8_t input[GE_MLPERF_INPUTS]; /* the bundle's input made from the stimulus; the bundle may overwrite its own
                                      * copy */
} runner;

static void say(const char *text) {
    for (; *text != '\0'; ++text) {
        ge_uart_put((uint8_t)*text);
    }
}

static void say_number(uint64_t number) {
    ge_line line;
    ge_line_clear(&line);
    ge_line_number(&line, number);
    say(line.text);
}

static void say_hex(uint8_t byte) {
    ge_uart_put((uint8_t)"0123456789abcdef"[byte >> 4]);
    ge_uart_put((uint8_t)"0123456789abcdef"[byte & 15u]);
}

/* Prints three digits after the point; a number that is too large becomes the largest one that fits. */
static void say_thousandths(float value) {
    const float most = 2.0e9f;
    const float scaled = ((value < 0.0f) ? -value : value) * 1000.0f + 0.5f;
    const uint32_t number = (uint32_t)((scaled < most) ? scaled : most);
    say((value < 0.0f && number > 0u) ? "-" : "");
    say_number(number / 1000u);
    ge_uart_put((uint8_t)'.');
    for (uint32_t unit = 100u; unit > 0u; unit /= 10u) {
        ge_uart_put((uint8_t)('0' + number / unit % 10u));
    }
}

static void say_with_number(const char *before, uint64_t number, const char *after) {
    say(before);
    say_number(number);
    say(after);
}

static void follow_ticks(runner *run) {
    const uint32_t now = (uint32_t)ge_ticks_read().ticks;
    run->ticks += now - run->ticks_seen;
    run->ticks_seen = now;
}

static void timestamp(runner *run) {
    follow_ticks(run);
    const uint64_t seconds = run->ticks / GE_CLOCK_HZ;
    const uint64_t rest = run->ticks % GE_CLOCK_HZ;
    say_with_number("m-lap-us-", seconds * 1000000u + rest * 1000000u / GE_CLOCK_HZ, "\r\n");
}

static int32_t digit(char character) {
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    const char lower = (char)(character | 0x20);
    return (lower >= 'a' && lower <= 'f') ? lower - 'a' + 10 : -1;
}

/* Returns a decimal integer, or -1 if the text is not one. */
static int32_t decimal(const char *text) {
    int32_t number = 0;
    for (const char *at = text; *at != '\0'; ++at) {
        if (*at < '0' || *at > '9' || number > 100000000) {
            return -1;
        }
        number = 10 * number + (*at - '0');
    }
    return (*text == '\0') ? -1 : number;
}

static void load_begin(runner *run, const char *count) {
    const int32_t bytes = (count == NULL) ? -1 : decimal(count);
    if (bytes <= 0) {
        say("e-[db load: how many bytes?]\r\n");
    } else if ((uint32_t)bytes > GE_MLPERF_STIMULUS_BYTES) {
        say_with_number("e-[db load: at most ", GE_MLPERF_STIMULUS_BYTES, " bytes]\r\n");
    } else {
        run->expected = (uint32_t)bytes;
        run->loaded = 0;
        say_with_number("m-[Expecting ", (uint64_t)bytes, " bytes]\r\n");
    }
}

/* Stores pairs of hexadecimal digits; those beyond the announced bytes are dropped. */
static void load_bytes(runner *run, const char *digits) {
    if (strlen(digits) % 2u != 0u) {
        say("e-[db: an odd number of hex digits]\r\n");
        return;
    }
    for (; *digits != '\0' && run->loaded < run->expected; digits += 2) {
        const int32_t high = digit(digits[0]);
        const int32_t low = digit(digits[1]);
        if (high < 0 || low < 0) {
            const char pair[3] = {digits[0], digits[1], '\0'};
            say("e-[db: no hex digits: ");
            say(pair);
            say("]\r\n");
            return;
        }
        run->stimulus[run->loaded] = (uint8_t)(16 * high + low);
        run->loaded += 1u;
        if (run->loaded == run->expected) {
            say("m-load-done\r\n");
        }
    }
}

static void print_bytes(const runner *run) {
    for (uint32_t i = 0; i < run->expected; ++i) {
        say((i % PRINTED == 0u) ? "m-buffer-" : "-");
        say_hex(run->stimulus[i]);
        say((i % PRINTED == PRINTED - 1u || i + 1u == run->expected) ? "\r\n" : "");
    }
}

static void db(runner *run, const char *const words[WORDS]) {
    if (words[1] == NULL) {
        say("e-[db: load N, print, or hex digits]\r\n");
    } else if (strcmp(words[1], "load") == 0) {
        load_begin(run, words[2]);
    } else if (strcmp(words[1], "print") == 0) {
        print_bytes(run);
    } else {
        load_bytes(run, words[1]);
    }
}

static float stimulus_float(const runner *run, uint32_t index) {
    float value;
    memcpy(&value, run->stimulus + sizeof value * index, sizeof value);
    return value;
}

static uint8_t quantized(float value) {
    const float most = 512.0f;
    const float scaled = value / GE_MLPERF_INPUT_SCALE;
    const float kept = (scaled > most) ? most : ((scaled > -most) ? scaled : -most); /* NaN becomes the least number */
    const int32_t number = (int32_t)(kept + ((kept < 0.0f) ? -0.5f : 0.5f)) + GE_MLPERF_INPUT_ZERO;
    return (uint8_t)((number > 127) ? 127 : ((number < -128) ? -128 : number));
}

/* Returns 1, or 0 if the stimulus is incomplete. */
static int32_t load_tensor(runner *run) {
    if (run->loaded != GE_MLPERF_STIMULUS_BYTES) {
        say_with_number("e-[infer: ", run->loaded, " bytes are loaded, ");
        say_with_number("expected ", GE_MLPERF_STIMULUS_BYTES, "]\r\n");
        return 0;
    }
    for (uint32_t i = 0; i < GE_MLPERF_INPUTS; ++i) {
        run->input[i] = GE_MLPERF_IS_FLOAT ? quantized(stimulus_float(run, i)) : ge_mlperf_input[run->stimulus[i]];
    }
    return 1;
}

static float output(const runner *run, uint32_t index) {
    const int8_t *const outputs = (const int8_t *)(run->bundle->arena + run->bundle->outputs[0].offset);
    return (float)(outputs[index] - GE_MLPERF_OUTPUT_ZERO) * GE_MLPERF_OUTPUT_SCALE;
}

static float mean_squared_error(const runner *run) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < GE_MLPERF_OUTPUTS; ++i) {
        const float difference = output(run, i) - stimulus_float(run, i);
        sum += difference * difference;
    }
    return sum / (float)GE_MLPERF_OUTPUTS;
}

static void results(const runner *run) {
    say("m-results-[");
    if (GE_MLPERF_IS_ERROR) {
        say_thousandths(mean_squared_error(run));
    } else {
        for (uint32_t i = 0; i < GE_MLPERF_OUTPUTS; ++i) {
            say((i > 0u) ? "," : "");
            say_thousandths(output(run, i));
        }
    }
    say("]\r\n");
}

/* Returns 1, or 0 after an error. */
static int32_t infer_times(runner *run, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) {
        memcpy(run->bundle->arena + run->bundle->inputs[0].offset, run->input, GE_MLPERF_INPUTS);
        const int32_t status = run->bundle->run(run->bundle->arena);
        follow_ticks(run);
        if (status != 0 || ge_guard_broken(run->bundle) != 0) {
            say((status != 0) ? "e-[infer: the bundle returned an error]\r\n"
                              : "e-[infer: the bundle wrote outside its arena]\r\n");
            return 0;
        }
    }
    return 1;
}

static void infer(runner *run, const char *const words[WORDS]) {
    const int32_t times = (words[1] == NULL) ? 1 : decimal(words[1]);
    const int32_t warmups = (words[2] == NULL) ? (int32_t)WARMUPS : decimal(words[2]);
    if (times <= 0) {
        say("e-[infer: the number of inferences must be over 0]\r\n");
        return;
    }
    if (warmups < 0) {
        say("e-[infer: the number of warm-ups is no number]\r\n");
        return;
    }
    if (!load_tensor(run)) {
        return;
    }
    say_with_number("m-warmup-start-", (uint64_t)warmups, "\r\n");
    if (!infer_times(run, (uint32_t)warmups)) {
        return;
    }
    say("m-warmup-done\r\n");
    say_with_number("m-infer-start-", (uint64_t)times, "\r\n");
    timestamp(run);
    const int32_t whole = infer_times(run, (uint32_t)times);
    timestamp(run);
    say("m-infer-done\r\n");
    if (whole) {
        results(run);
    }
}

static void help(void) {
    say("glowembed for MLPerf Tiny\r\n\r\n"
        "name, profile, timestamp, results, help\r\n"
        "db load N: announce N bytes\r\n"
        "db HH[HH]*: bytes in hexadecimal, until there are N\r\n"
        "db print: the bytes\r\n"
        "infer N [W=10]: N inferences after W to warm up\r\n");
}

static void obey(runner *run, const char *const words[WORDS]) {
    const char *const command = (words[0] == NULL) ? "" : words[0];
    if (strcmp(command, "name") == 0) {
        say("m-name-dut-[" GE_BOARD "]\r\n");
    } else if (strcmp(command, "profile") == 0) {
        say("m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[" GE_MLPERF_MODEL "]\r\n");
    } else if (strcmp(command, "timestamp") == 0) {
        timestamp(run);
    } else if (strcmp(command, "db") == 0) {
        db(run, words);
    } else if (strcmp(command, "infer") == 0) {
        infer(run, words);
    } else if (strcmp(command, "results") == 0) {
        results(run);
    } else if (strcmp(command, "help") == 0) {
        help();
    } else {
        say("e-[Unknown command: ");
        say(command);
        say("]\r\n");
    }
    say("m-ready\r\n");
}

/* Cuts the command at its spaces. Missing words are NULL; more than WORDS are dropped. */
static void split(char *text, const char *words[WORDS]) {
    uint32_t count = 0;
    int32_t inside = 0;
    memset(words, 0, WORDS * sizeof words[0]);
    for (char *at = text; *at != '\0'; ++at) {
        if (*at == ' ' || *at == '\r' || *at == '\n') {
            *at = '\0';
            inside = 0;
        } else if (inside == 0) {
            inside = 1;
            if (count < WORDS) {
                words[count] = at;
            }
            ++count;
        }
    }
}

/* Characters that do not fit are dropped, as in the published firmware. */
static void take(runner *run, char character) {
    const char *words[WORDS];
    if (character != '%') {
        run->command[run->length] = character;
        run->length += (run->length < COMMAND_BYTES) ? 1u : 0u;
        return;
    }
    run->command[run->length] = '\0';
    run->length = 0;
    split(run->command, words);
    obey(run, words);
}

int32_t ge_transport(const ge_bundle *bundle) {
    static runner run;
    run.bundle = bundle;
    ge_guard_arena(bundle);
    ge_ticks_start(GE_TICKS_PERIOD_MAX);
    say("m-timestamp-mode-performance\r\n");
    timestamp(&run);
    say("m-init-done\r\nm-ready\r\n");
    for (;;) {
        const int32_t byte = ge_uart_get();
        follow_ticks(&run);
        if (byte >= 0) {
            take(&run, (char)byte);
        }
    }
}

/* main() calls this only if ge_transport returns, which it does not. */
void ge_finish(int32_t code) {
    (void)code;
    ge_board_reset();
}

void ge_fault_report(const ge_fault *fault) {
    ge_line line;
    ge_line_clear(&line);
    ge_line_text(&line, "\r\ne-[exception ");
    ge_line_number(&line, fault->exception);
    ge_line_text(&line, " at ");
    ge_line_hex(&line, fault->pc);
    ge_line_text(&line, "]\r\n");
    say(line.text);
    ge_board_reset();
}
