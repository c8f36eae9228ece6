package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"ramet.dev/native/guest/internal/users"
)

// Size of a terminal, in characters.
type Size struct {
	Columns uint16
	Rows    uint16
}

const (
	ioctlUnlock    = 0x40045431 // TIOCSPTLCK of <asm-generic/ioctls.h>
	ioctlNumber    = 0x80045430 // TIOCGPTN
	ioctlSetWindow = 0x5414     // TIOCSWINSZ
)

// openPTY opens a pseudoterminal. The master uses Go's poller; the terminal belongs to the user.
func openPTY(size Size, user users.User) (master, terminal *os.File, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "opening", Path: "/dev/ptmx", Err: err}
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	var number, locked int32
	if err := ioctl(fd, ioctlUnlock, unsafe.Pointer(&locked)); err != nil {
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	if err := ioctl(fd, ioctlNumber, unsafe.Pointer(&number)); err != nil {
		return nil, nil, fmt.Errorf("getting a terminal's number: %w", err)
	}
	name := "/dev/pts/" + strconv.Itoa(int(number))
	terminal, err = os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	_ = os.Chown(name, int(user.UID), -1)
	return master, terminal, resize(master, size)
}

func resize(master *os.File, size Size) error {
	window := [4]uint16{size.Rows, size.Columns}
	control, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = control.Control(func(fd uintptr) { failed = ioctl(int(fd), ioctlSetWindow, unsafe.Pointer(&window)) })
	if err != nil {
		return err
	}
	return failed
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
