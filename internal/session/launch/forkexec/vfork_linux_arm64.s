#include "textflag.h"

// func vfork(nr, arg0, arg1 uintptr) (pid uintptr, errno syscall.Errno)
// The return address is in R30, which each side has; this function uses no stack.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVD nr+0(FP), R8
	MOVD arg0+8(FP), R0
	MOVD arg1+16(FP), R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD ZR, R5
	SVC
	MOVD ZR, errno+32(FP)
	MOVD R0, pid+24(FP)
	CMN  $4095, R0 // errors are -4095 to -1
	BCS  failed
	RET

failed:
	NEG  R0, R0
	MOVD R0, errno+32(FP)
	MOVD ZR, pid+24(FP)
	RET
