/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all programs share: fixed-width types, and the helpers and relocations of the kernel's BPF
 * interface.
 *
 * Nothing is included, so clang alone compiles the programs. They declare only those members of
 * kernel types that they read: the loader finds each member's real offset in the BTF of the
 * running kernel (CO-RE). With USE_VMLINUX_H the types are those of a kernel, which proves that
 * members are named as there. A type with ___ in its name is another kernel's version of the type
 * before the underscores.
 */
#ifndef BPF_H
#define BPF_H

#ifdef USE_VMLINUX_H
#include "vmlinux.h"
#else
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#endif

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define RELOCATED __attribute__((preserve_access_index))

/* A map is described by the types of a struct's members; libbpf reads them from BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* enum bpf_map_type, the flags of map updates and bpf_func_id of include/uapi/linux/bpf.h. */
#define MAP_TYPE_HASH 1
#define MAP_TYPE_ARRAY 2
#define MAP_TYPE_PERCPU_HASH 5
#define MAP_TYPE_PERCPU_ARRAY 6
#define MAP_MMAPABLE 0x400
#define UPDATE_ANY 0
#define UPDATE_NOEXIST 1
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) =
    (void *)2;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u32 (*const get_prandom_u32)(void) = (void *)7;
static u32 (*const smp_processor_id)(void) = (void *)8;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static u64 (*const get_current_task)(void) = (void *)35;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;

/* What the loader is asked about a member or an enumerator: enum bpf_field_info_kind and
 * bpf_enum_value_kind, as clang's built-in functions take them. */
#define FIELD_BYTE_OFFSET 0
#define FIELD_BYTE_SIZE 1
#define FIELD_EXISTS 2
#define FIELD_LSHIFT_U64 4
#define FIELD_RSHIFT_U64 5
#define exists(member) __builtin_preserve_field_info(member, FIELD_EXISTS)
#define enumerator_value(type, name) __builtin_preserve_enum_value(*(typeof(type) *)name, 1)

/*
 * A member of a kernel structure. BTF programs ("typed") follow the pointers that they were
 * given and what they read from them directly, which costs one load; all others go through a
 * helper.
 */
#define READ(typed, pointer, member)                                                         \
    ({                                                                                        \
        typeof((pointer)->member) value_ = {0};                                               \
        if (typed)                                                                            \
            value_ = (pointer)->member;                                                       \
        else                                                                                  \
            read_kernel(&value_, sizeof(value_),                                              \
                        __builtin_preserve_access_index(&(pointer)->member));                 \
        value_;                                                                               \
    })

/*
 * A bit field, zero-extended: the loader says which bytes to read and how far to shift. The mask
 * shows the verifier that the size is a small one.
 */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BITS_BEGIN(size) (8 - (size))
#else
#define BITS_BEGIN(size) 0
#endif
#define READ_BITS(pointer, member)                                                           \
    ({                                                                                        \
        u64 bits_ = 0;                                                                        \
        u32 size_ = __builtin_preserve_field_info((pointer)->member, FIELD_BYTE_SIZE) & 15;   \
        read_kernel((void *)&bits_ + BITS_BEGIN(size_), size_,                                \
                    (const void *)(pointer) +                                                 \
                        __builtin_preserve_field_info((pointer)->member, FIELD_BYTE_OFFSET)); \
        bits_ <<= __builtin_preserve_field_info((pointer)->member, FIELD_LSHIFT_U64);         \
        bits_ >> __builtin_preserve_field_info((pointer)->member, FIELD_RSHIFT_U64);          \
    })

/* The number of the highest bit; 0 for 0. */
INLINE u32 log2_of(u64 value)
{
    u32 result = 0;

    for (u32 step = 32; step; step /= 2) {
        if (value >> step) {
            value >>= step;
            result += step;
        }
    }
    return result;
}

/* The kernel lends most helpers only to programs under its own licence. */
const char licence[] SEC("license") = "GPL";

#endif
