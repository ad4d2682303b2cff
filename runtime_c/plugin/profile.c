/* A plugin for QEMU's translator that counts what a guest executes, block by block, between two addresses.
 *
 * SPDX-License-Identifier: MIT
 *
 * Load it with -plugin FILE,out=PATH,arm=ADDRESS,begin=ADDRESS,end=ADDRESS (addresses in hexadecimal): A phase begins
 * when the guest reaches `begin` after it has reached `arm`, and ends when it reaches `end`. The harness therefore
 * needs no marker: `arm` is the function that measures, `begin` the function that it calls, `end` the address that the
 * call returns to. The guest is not changed, and the counts are those of the measured code alone.
 *
 * For each phase, the plugin writes a line `phase N` to PATH and one line for each block that ran:
 *     PC INSTRUCTIONS TIMES TO_2 TO_4
 * TO_2 and TO_4 count how often the next block began 2, or 4, bytes after the block's last instruction. The length of
 * that instruction tells the reader which of the two means that a branch was not taken.
 *
 * The file declares the functions of QEMU that it uses, so that it needs no header of QEMU, which distributions do not
 * install. Build it with -DGE_PLUGIN_API=1 for QEMU before version 9, and with 2 from there on; nothing else
 * differs. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* declarations of QEMU's plugin interface */

typedef uint64_t plugin_id;
typedef struct qemu_plugin_tb tb;
typedef struct qemu_plugin_insn insn;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id id, tb *block));
extern void qemu_plugin_register_vcpu_tb_exec_cb(tb *block, void (*executed)(unsigned int cpu, void *data), int flags,
                                                 void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*leave)(plugin_id id, void *data), void *data);
extern size_t qemu_plugin_tb_n_insns(const tb *block);
extern uint64_t qemu_plugin_tb_vaddr(const tb *block);
extern insn *qemu_plugin_tb_get_insn(const tb *block, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const insn *instruction);
extern void qemu_plugin_register_vcpu_mem_cb(insn *instruction,
                                             void (*accessed)(unsigned int cpu, uint32_t access, uint64_t address,
                                                              void *data),
                                             int flags, int direction, void *data);
extern unsigned int qemu_plugin_mem_size_shift(uint32_t access);
extern bool qemu_plugin_mem_is_store(uint32_t access);

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

int qemu_plugin_version = GE_PLUGIN_API;

/* the plugin's own data */

#define BUCKETS 4096u
#define NO_REGISTERS 0 /* the callback accesses no registers */
#define BOTH 3         /* loads and stores: QEMU 7.2 gives stores to who asks for loads */

typedef struct block {
    struct block *next_in_bucket;
    struct block *next;
    uint64_t pc;
    uint64_t last_pc;
    uint64_t instructions;
    uint64_t times, to_2, to_4;
    uint64_t loads, bytes;
} block;

static block *buckets[BUCKETS];
static block *all_blocks;
static block *previous;
static uint64_t arm_address, begin_address, end_address;
static uint64_t slow_address, slow_end_address;
static bool armed, in_phase;
static unsigned long phases;
static FILE *out;

/* Returns the record of a block. Code that is translated more than once has one record. */
static block *block_of(uint64_t pc, uint64_t last_pc, uint64_t instructions) {
    block **bucket = &buckets[(pc >> 1) % BUCKETS];
    for (block *b = *bucket; b != NULL; b = b->next_in_bucket) {
        if (b->pc == pc && b->instructions == instructions) {
            return b;
        }
    }
    block *b = calloc(1, sizeof *b);
    if (b == NULL) {
        abort();
    }
    b->pc = pc;
    b->last_pc = last_pc;
    b->instructions = instructions;
    b->next_in_bucket = *bucket;
    *bucket = b;
    b->next = all_blocks;
    all_blocks = b;
    return b;
}

static void begin_phase(void) {
    armed = false;
    in_phase = true;
    previous = NULL;
    for (block *b = all_blocks; b != NULL; b = b->next) {
        b->times = b->to_2 = b->to_4 = b->loads = b->bytes = 0;
    }
}

static void end_phase(void) {
    in_phase = false;
    fprintf(out, "phase %lu\n", phases++);
    for (const block *b = all_blocks; b != NULL; b = b->next) {
        if (b->times != 0) {
            fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", b->pc,
                    b->instructions, b->times, b->to_2, b->to_4, b->loads, b->bytes);
        }
    }
}

static void count(block *b) {
    if (previous != NULL) {
        const uint64_t step = b->pc - previous->last_pc;
        previous->to_2 += step == 2u;
        previous->to_4 += step == 4u;
    }
    b->times++;
    previous = b;
}

static void on_execution(unsigned int cpu, void *data) {
    block *b = data;
    if (cpu != 0u) {
        return;
    }
    if (b->pc == arm_address) {
        armed = true;
    } else if (armed && b->pc == begin_address) {
        begin_phase();
    } else if (b->pc == end_address) {
        armed = false;
        if (in_phase) {
            end_phase();
        }
    }
    if (in_phase) {
        count(b);
    }
}

static void on_load(unsigned int cpu, uint32_t access, uint64_t address, void *data) {
    block *b = data;
    if (cpu == 0u && in_phase && !qemu_plugin_mem_is_store(access) && address >= slow_address &&
        address < slow_end_address) {
        b->loads++;
        b->bytes += UINT64_C(1) << qemu_plugin_mem_size_shift(access);
    }
}

static void on_translation(plugin_id id, tb *translated) {
    (void)id;
    const size_t n = qemu_plugin_tb_n_insns(translated);
    const uint64_t last_pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translated, n - 1u));
    block *b = block_of(qemu_plugin_tb_vaddr(translated), last_pc, n);
    qemu_plugin_register_vcpu_tb_exec_cb(translated, on_execution, NO_REGISTERS, b);
    for (size_t i = 0; i < n && slow_address < slow_end_address; i++) {
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(translated, i), on_load, NO_REGISTERS, BOTH, b);
    }
}

static void on_leave(plugin_id id, void *data) {
    (void)id;
    (void)data;
    fprintf(out, "end %lu\n", phases);
    fclose(out);
}

/* Returns the value after `key=` in an argument, or NULL if the argument has another key. */
static const char *value_of(const char *argument, const char *key) {
    const size_t length = strlen(key);
    return (strncmp(argument, key, length) == 0 && argument[length] == '=') ? argument + length + 1u : NULL;
}

static bool take(const char *argument) {
    const struct {
        const char *key;
        uint64_t *address;
    } addresses[] = {{"arm", &arm_address},
                     {"begin", &begin_address},
                     {"end", &end_address},
                     {"slow", &slow_address},
                     {"slow_end", &slow_end_address}};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; ++i) {
        const char *value = value_of(argument, addresses[i].key);
        if (value != NULL) {
            *addresses[i].address = strtoull(value, NULL, 16);
            return true;
        }
    }
    const char *path = value_of(argument, "out");
    if (path != NULL && out == NULL) {
        out = fopen(path, "w");
    }
    return path != NULL;
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (!take(argv[i])) {
            fprintf(stderr, "profile plugin: unknown argument %s\n", argv[i]);
            return 1;
        }
    }
    if (out == NULL) {
        fprintf(stderr, "profile plugin: out= is missing or cannot be written\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_leave, NULL);
    return 0;
}
