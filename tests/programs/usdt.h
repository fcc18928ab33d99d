/* USDT probes: a nop, and a note in .note.stapsdt with its address and the locations of its arguments. SIZE is in bytes, negative for a
   signed argument. */
#ifndef USDT_H
#define USDT_H

#define USDT_NOTE(provider, name, semaphore, arguments, ...)                        \
    __asm__ volatile("990: nop\n"                                                   \
                     "   .pushsection .note.stapsdt, \"\", \"note\"\n"              \
                     "   .balign 4\n"                                               \
                     "   .4byte 992f - 991f, 994f - 993f, 3\n"                      \
                     "991: .asciz \"stapsdt\"\n"                                    \
                     "992: .balign 4\n"                                             \
                     "993: .8byte 990b, usdt.base, " semaphore "\n"                 \
                     "   .asciz \"" #provider "\"\n"                                \
                     "   .asciz \"" #name "\"\n"                                    \
                     "   .asciz \"" arguments "\"\n"                                \
                     "994: .balign 4\n"                                             \
                     "   .popsection\n"                                             \
                     "   .ifndef usdt.base\n"                                       \
                     "   .pushsection .stapsdt.base, \"aG\", \"progbits\", "        \
                     ".stapsdt.base, comdat\n"                                      \
                     "   .weak usdt.base\n"                                         \
                     "   .hidden usdt.base\n"                                       \
                     "usdt.base: .space 1\n"                                        \
                     "   .size usdt.base, 1\n"                                      \
                     "   .popsection\n"                                             \
                     "   .endif\n" ::__VA_ARGS__)

#define USDT0(provider, name) USDT_NOTE(provider, name, "0", "")
#define USDT2(provider, name, size1, value1, size2, value2)                         \
    USDT_NOTE(provider, name, "0", "%c0@%1 %c2@%3", "i"(size1), "nor"(value1), "i"(size2), \
              "nor"(value2))
#define USDT3(provider, name, size1, value1, size2, value2, size3, value3)          \
    USDT_NOTE(provider, name, "0", "%c0@%1 %c2@%3 %c4@%5", "i"(size1), "nor"(value1), \
              "i"(size2), "nor"(value2), "i"(size3), "nor"(value3))

/* The counter that the kernel increments while the probe is in use. */
#define USDT_SEMAPHORE(provider, name)                                              \
    __attribute__((section(".probes"), used)) volatile unsigned short               \
        provider##_##name##_semaphore

#define USDT_ENABLED(provider, name) (provider##_##name##_semaphore != 0)

#define USDT1_GUARDED(provider, name, size1, value1)                                \
    USDT_NOTE(provider, name, #provider "_" #name "_semaphore", "%c0@%1", "i"(size1), "nor"(value1))

#endif
