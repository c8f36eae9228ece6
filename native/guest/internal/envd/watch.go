package envd

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const watchedEvents = syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MODIFY | syscall.IN_DELETE |
	syscall.IN_MOVED_FROM | syscall.IN_ATTRIB | syscall.IN_ONLYDIR

// watch follows one directory with inotify, including its subdirectories if recursive.
type watch struct {
	root      string
	recursive bool
	// events is closed when the watch has ended, also if its reader is too slow.
	events chan *watchEvent

	file *os.File
	done chan struct{}
	once sync.Once
	// dirs is used only by the reading goroutine after openWatch has returned.
	dirs map[int32]string
}

func openWatch(root string, recursive bool) (*watch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{
		root:      root,
		recursive: recursive,
		events:    make(chan *watchEvent, 1024),
		file:      os.NewFile(uintptr(fd), "inotify"),
		done:      make(chan struct{}),
		dirs:      map[int32]string{},
	}
	if err := w.add(root); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	go w.read()
	return w, nil
}

func (w *watch) close() {
	w.once.Do(func() {
		close(w.done)
		_ = w.file.Close()
	})
}

// add watches a directory and, if recursive, its subdirectories.
func (w *watch) add(dir string) error {
	control, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var number int
	var failed error
	err = control.Control(func(fd uintptr) { number, failed = syscall.InotifyAddWatch(int(fd), dir, watchedEvents) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return &fs.PathError{Op: "inotify_add_watch", Path: dir, Err: err}
	}
	w.dirs[int32(number)] = dir
	if !w.recursive {
		return nil
	}
	children, _ := os.ReadDir(dir)
	for _, child := range children {
		if child.IsDir() {
			_ = w.add(filepath.Join(dir, child.Name()))
		}
	}
	return nil
}

func (w *watch) read() {
	defer close(w.events)
	defer w.close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return
		}
		for rest := buffer[:n]; len(rest) >= syscall.SizeofInotifyEvent; {
			number := int32(binary.NativeEndian.Uint32(rest[0:]))
			mask := binary.NativeEndian.Uint32(rest[4:])
			end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := strings.TrimRight(string(rest[syscall.SizeofInotifyEvent:end]), "\x00")
			rest = rest[end:]
			if !w.report(number, mask, name) {
				return
			}
		}
	}
}

// report forwards one event. It returns false to end the watch.
func (w *watch) report(number int32, mask uint32, name string) bool {
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		return false
	}
	dir, known := w.dirs[number]
	if mask&syscall.IN_IGNORED != 0 {
		delete(w.dirs, number)
		return number != 1 || dir != w.root
	}
	kind := kindOf(mask)
	if !known || kind == 0 {
		return true
	}
	path := filepath.Join(dir, name)
	if w.recursive && mask&syscall.IN_ISDIR != 0 && kind == eventCreate {
		_ = w.add(path)
	}
	relative, err := filepath.Rel(w.root, path)
	if err != nil {
		return true
	}
	select {
	case w.events <- &watchEvent{Name: relative, Type: kind}:
		return true
	case <-w.done:
		return false
	default:
		return false
	}
}

func kindOf(mask uint32) eventEnum {
	switch {
	case mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) != 0:
		return eventCreate
	case mask&syscall.IN_MODIFY != 0:
		return eventWrite
	case mask&syscall.IN_DELETE != 0:
		return eventRemove
	case mask&syscall.IN_MOVED_FROM != 0:
		return eventRename
	case mask&syscall.IN_ATTRIB != 0:
		return eventChmod
	default:
		return 0
	}
}
