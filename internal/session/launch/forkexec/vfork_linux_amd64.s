#include "textflag.h"

// func vfork(nr, arg0, arg1 uintptr) (pid uintptr, errno syscall.Errno)
// The child's next call overwrites the return address on the stack: the parent keeps it in a register that system calls preserve
// (R12; only AX, CX and R11 change).
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ nr+0(FP), AX
	MOVQ arg0+8(FP), DI
	MOVQ arg1+16(FP), SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	XORL R9, R9
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ $0, errno+32(FP)
	MOVQ AX, pid+24(FP)
	CMPQ AX, $-4095 // errors are -4095 to -1
	JCC  failed
	RET

failed:
	NEGQ AX
	MOVQ AX, errno+32(FP)
	MOVQ $0, pid+24(FP)
	RET
