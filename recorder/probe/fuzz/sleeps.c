/* A program that waits in inlined functions, and has a USDT probe: it is compiled into seeds, as README.md describes. */
struct timespec { long seconds, nanoseconds; };

/* A probe in the form of <sys/sdt.h>, and the label that a kernel's addresses are relative to. */
__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
	"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990f\n.8byte _.stapsdt.base\n.8byte 0\n"
	".asciz \"sleeps\"\n.asciz \"round\"\n.asciz \"-4@%edi 8@-8(%rbp)\"\n994: .balign 4\n.popsection\n"
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n.popsection\n"
	".text\n.globl _stext\n_stext:\n.globl probed\n.type probed,@function\nprobed: .cfi_startproc\n990: nop\nret\n"
	".cfi_endproc\n.size probed, .-probed\n");
void probed(int round);

#define INLINED static inline __attribute__((always_inline)) void
#define OWN __attribute__((noinline)) void

INLINED call(long number, const void *first, void *second)
{
	__asm__ volatile("syscall" : "+a"(number) : "D"(first), "S"(second) : "rcx", "r11", "memory");
}
INLINED rests(long nanoseconds) { struct timespec time = {0, nanoseconds}; call(35, &time, 0); }
INLINED pauses(int round) { if (round & 1) rests(2000000); else rests(3000000); }

OWN waits(int round) { pauses(round); __asm__ volatile("" ::: "memory"); }
OWN cpp(int round) __asm__("_ZN5space5ShapeIiE4restEiPKc");
void cpp(int round) { waits(round); __asm__ volatile("" ::: "memory"); }
OWN rust(int round) __asm__("_RNvNtCs1234_3app6render5frame");
void rust(int round) { probed(round); cpp(round); rests(1500000); }

int main(void)
{
	for (int round = 0; round < 4; round++)
		rust(round);
	return 0;
}

#ifdef ALONE
__attribute__((force_align_arg_pointer)) void _start(void) { main(); call(60, 0, 0); }
#endif
