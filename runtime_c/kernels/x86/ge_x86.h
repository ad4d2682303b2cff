/* Finds out once which instruction sets of x86-64 this computer has; kernels exist once for each level.
 *
 * A level requires support by the processor (CPUID) and by the operating system (XGETBV): a vector register that is not
 * saved when threads switch must not be used. Every level except GE_X86_PORTABLE requires a compiler with target
 * attributes.
 */
#ifndef GE_X86_H
#define GE_X86_H

#include <stdint.h>

#if defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && __GNUC__ >= 11))
#include <cpuid.h>
#include <immintrin.h>
#define GE_X86_LEVELS 1
#else
#define GE_X86_LEVELS 0
#endif

/* When gcc coalesces variables, it copies sums between registers at each step of a tile, which doubles the time. It
 * also delays additions until all products exist, which are more than there are registers: GE_IN_ORDER prevents that in
 * functions with long sums written out. */
#if defined(__clang__)
#define GE_X86_TUNE
#define GE_IN_ORDER
#else
#define GE_X86_TUNE , optimize("no-tree-coalesce-vars")
#define GE_IN_ORDER __attribute__((optimize("no-tree-coalesce-vars", "no-tree-ter", "no-tree-reassoc")))
#endif

/* Placed before a loop with a constant number of iterations, at most 32, whose variables should be in registers. */
#if defined(__clang__)
#define GE_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define GE_UNROLL _Pragma("GCC unroll 32")
#else
#define GE_UNROLL
#endif

/* Hides from gcc where a pointer comes from. In a loop, constants are then read at this pointer plus an offset; otherwise
 * gcc would keep an address for each of them, mostly on the stack. */
#if GE_X86_LEVELS
#define GE_FROM(pointer) __asm__("" : "+r"(pointer))
#else
#define GE_FROM(pointer) ((void)(pointer))
#endif

/* The levels, the best one last. The order is that of glowembed/kernels/x86/levels.py. */
enum { GE_X86_PORTABLE, GE_X86_SSE41, GE_X86_AVX2, GE_X86_AVXVNNI, GE_X86_AVX512VNNI };

/* One bit for each level that has kernels. */
#ifndef GE_X86_LEVELS_HERE
#define GE_X86_LEVELS_HERE 0x1Fu
#endif

/* The words of CPUID and XGETBV that matter; zeros where the processor does not support them. */
typedef struct {
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t leaf7_ecx;
    uint32_t leaf7_1_eax;
    uint32_t xcr0;
} ge_x86_features;

static inline int32_t ge_x86_all(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

/* Returns one bit for each level that these features allow: 1 << GE_X86_... (Intel's manual, volume 2, CPUID; volume 1,
 * 13.3). */
static inline uint32_t ge_x86_allowed(const ge_x86_features *f) {
    const uint32_t ssse3_sse41 = 1u << 9 | 1u << 19, fma_osxsave_avx = 1u << 12 | 1u << 27 | 1u << 28;
    const uint32_t avx2 = 1u << 5, avx512_f_bw_vl = 1u << 16 | 1u << 30 | 1u << 31, avx512_vnni = 1u << 11;
    const uint32_t avxvnni = 1u << 4, xmm_ymm = 6u, xmm_ymm_zmm = 0xE6u;
    const int32_t has_sse41 = ge_x86_all(f->leaf1_ecx, ssse3_sse41);
    const int32_t has_avx2 = has_sse41 && ge_x86_all(f->leaf1_ecx, fma_osxsave_avx) && ge_x86_all(f->xcr0, xmm_ymm) &&
                             ge_x86_all(f->leaf7_ebx, avx2);
    const int32_t has_avxvnni = has_avx2 && ge_x86_all(f->leaf7_1_eax, avxvnni);
    const int32_t has_avx512 = has_avx2 && ge_x86_all(f->xcr0, xmm_ymm_zmm) &&
                               ge_x86_all(f->leaf7_ebx, avx512_f_bw_vl) && ge_x86_all(f->leaf7_ecx, avx512_vnni);
    return 1u << GE_X86_PORTABLE | (uint32_t)has_sse41 << GE_X86_SSE41 | (uint32_t)has_avx2 << GE_X86_AVX2 |
           (uint32_t)has_avxvnni << GE_X86_AVXVNNI | (uint32_t)has_avx512 << GE_X86_AVX512VNNI;
}

/* Returns the best allowed level that is not above `most`. */
static inline int32_t ge_x86_best(uint32_t allowed, int32_t most) {
    int32_t best = GE_X86_PORTABLE;
    for (int32_t level = GE_X86_PORTABLE; level <= GE_X86_AVX512VNNI && level <= most; level++) {
        best = (allowed >> level & 1u) != 0 ? level : best;
    }
    return best;
}

#if GE_X86_LEVELS

static inline ge_x86_features ge_x86_ask(void) {
    ge_x86_features f = {0, 0, 0, 0, 0};
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        f.leaf1_ecx = c;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        f.leaf7_ebx = b;
        f.leaf7_ecx = c;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
            f.leaf7_1_eax = a;
        }
    }
    if (ge_x86_all(f.leaf1_ecx, 1u << 27)) { /* OSXSAVE: without it, XGETBV is not a valid instruction */
        __asm__ volatile("xgetbv" : "=a"(f.xcr0), "=d"(d) : "c"(0));
    }
    return f;
}

/* 1 + the level in use, and GE_X86_VBMI where the processor permutes bytes of two registers (AVX512-VBMI); 0: not yet
 * determined. Threads that get here first at the same time write the same number. */
static int32_t ge_x86_in_use;

#define GE_X86_VBMI 16

/* Limits the level in use to `most`; also raises the limit again. */
static inline int32_t ge_x86_use(int32_t most) {
    const ge_x86_features features = ge_x86_ask();
    const int32_t level = ge_x86_best(ge_x86_allowed(&features) & GE_X86_LEVELS_HERE, most);
    const int32_t vbmi = ge_x86_all(features.leaf7_ecx, 1u << 1) ? GE_X86_VBMI : 0;
    __atomic_store_n(&ge_x86_in_use, 1 + level + vbmi, __ATOMIC_RELAXED);
    return level;
}

static inline int32_t ge_x86_level(void) {
    const int32_t in_use = __atomic_load_n(&ge_x86_in_use, __ATOMIC_RELAXED);
    return in_use > 0 ? in_use % GE_X86_VBMI - 1 : ge_x86_use(GE_X86_AVX512VNNI);
}

/* Returns whether the processor has AVX512-VBMI, which not every one with AVX512-VNNI has. A level must be in use. */
static inline int32_t ge_x86_has_vbmi(void) {
    return __atomic_load_n(&ge_x86_in_use, __ATOMIC_RELAXED) >= GE_X86_VBMI;
}

#else

static inline int32_t ge_x86_use(int32_t most) {
    return ge_x86_best(1u << GE_X86_PORTABLE, most);
}

static inline int32_t ge_x86_level(void) {
    return GE_X86_PORTABLE;
}

#endif

#endif
