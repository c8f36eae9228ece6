package envd

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ramet.dev/native/guest/internal/rpc"
)

const (
	watchedEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ATTRIB |
		unix.IN_ONLYDIR
	// maxWaitingEvents limits the memory of clients that are slow or stop polling.
	maxWaitingEvents = 1 << 16
	// renameTime is how long the second half of a rename can take. The kernel reports both in succession.
	renameTime = 50 * time.Millisecond
)

// watch follows one directory with inotify, including its subdirectories if recursive. It reports every event, or ends with an error.
type watch struct {
	root      string
	recursive bool
	// changed receives a value after events or the end.
	changed chan struct{}
	file    *os.File

	mu     sync.Mutex
	events []*watchEvent
	err    error

	// Only the reading goroutine uses these after openWatch has returned.
	dirs map[int32]string
	// found holds the paths that were found in a new directory, and whose own event may follow.
	found map[string]struct{}
	// moving is a directory that has left its place, and can appear in another one.
	moving *moving
}

type moving struct {
	cookie uint32
	path   string
}

func openWatch(root string, recursive bool) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{
		root:      root,
		recursive: recursive,
		changed:   make(chan struct{}, 1),
		file:      os.NewFile(uintptr(fd), "inotify"),
		dirs:      map[int32]string{},
		found:     map[string]struct{}{},
	}
	isNew, err := w.add(root, unix.IN_MOVE_SELF)
	if err == nil && isNew && recursive {
		_, err = w.contents(root, false)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	clear(w.found)
	go w.read()
	return w, nil
}

func (w *watch) close() { _ = w.file.Close() }

// take returns the events since the last call. The error is why the watch has ended, when there are no more events.
func (w *watch) take() ([]*watchEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	if len(events) > 0 {
		return events, nil
	}
	return nil, w.err
}

func (w *watch) put(events []*watchEvent, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, events...)
	if len(w.events) > maxWaitingEvents {
		w.events, err = nil, w.lost()
	}
	w.err = err
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return err
}

func (w *watch) lost() error {
	return rpc.Errorf(rpc.Internal, "watching %s: events were lost, because too many were waiting; start a new watch, and list the directory", w.root)
}

func (w *watch) gone(how string) error {
	return rpc.Errorf(rpc.NotFound, "watching %s: the directory was %s", w.root, how)
}

func (w *watch) read() {
	defer w.close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = w.leave()
		case err == nil:
			err = w.handleAll(buffer[:n])
		}
		if err == nil {
			err = w.settle()
		}
		if err != nil {
			_ = w.put(nil, err)
			return
		}
	}
}

func (w *watch) handleAll(buffer []byte) error {
	for len(buffer) >= unix.SizeofInotifyEvent {
		event := inotifyEvent{
			number: int32(binary.NativeEndian.Uint32(buffer[0:])),
			mask:   binary.NativeEndian.Uint32(buffer[4:]),
			cookie: binary.NativeEndian.Uint32(buffer[8:]),
		}
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buffer[12:]))
		event.name = strings.TrimRight(string(buffer[unix.SizeofInotifyEvent:end]), "\x00")
		buffer = buffer[end:]
		events, err := w.handle(event)
		if err == nil && len(events) > 0 {
			err = w.put(events, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle prepares the next read. Events that were waiting during a search of a new directory have been handled when none is left.
func (w *watch) settle() error {
	if w.moving != nil {
		return w.file.SetReadDeadline(time.Now().Add(renameTime))
	}
	if len(w.found) == 0 {
		return nil
	}
	waiting := 0
	err := w.control(func(fd int) (err error) {
		waiting, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	if err == nil && waiting == 0 {
		clear(w.found)
	}
	return err
}

type inotifyEvent struct {
	number       int32
	mask, cookie uint32
	name         string
}

func (e inotifyEvent) is(mask uint32) bool { return e.mask&mask != 0 }

// handle returns what has to be reported for one event.
func (w *watch) handle(event inotifyEvent) ([]*watchEvent, error) {
	if event.is(unix.IN_Q_OVERFLOW) {
		return nil, w.lost()
	}
	from := w.moving
	if from != nil && !(event.is(unix.IN_MOVED_TO) && event.cookie == from.cookie) {
		from = nil
		if err := w.leave(); err != nil {
			return nil, err
		}
	}
	dir, known := w.dirs[event.number]
	switch {
	case !known:
		return nil, nil
	case event.is(unix.IN_IGNORED):
		delete(w.dirs, event.number)
		if dir == w.root {
			return nil, w.gone("removed")
		}
		return nil, nil
	case event.is(unix.IN_MOVE_SELF):
		return nil, w.gone("moved")
	case event.name == "" && dir != w.root:
		// The directory above reports the same.
		return nil, nil
	}
	path, kind := filepath.Join(dir, event.name), kindOf(event.mask)
	_, isFound := w.found[path]
	if event.is(unix.IN_CREATE | unix.IN_DELETE) {
		delete(w.found, path)
	}
	if kind == 0 || isFound && event.is(unix.IN_CREATE) {
		return nil, nil
	}
	events := []*watchEvent{w.event(path, kind)}
	if !w.recursive || !event.is(unix.IN_ISDIR) {
		return events, nil
	}
	switch {
	case event.is(unix.IN_MOVED_FROM):
		w.moving = &moving{cookie: event.cookie, path: path}
	case event.is(unix.IN_CREATE | unix.IN_MOVED_TO):
		if from != nil {
			w.rename(from.path, path)
		}
		inside, err := w.follow(path, event.is(unix.IN_CREATE))
		return append(events, inside...), err
	}
	return events, nil
}

func (w *watch) event(path string, kind eventEnum) *watchEvent {
	relative, _ := filepath.Rel(w.root, path)
	return &watchEvent{Name: relative, Type: kind}
}

// follow watches a directory that has appeared, and returns an event for everything that is in it.
func (w *watch) follow(dir string, created bool) ([]*watchEvent, error) {
	isNew, err := w.add(dir, unix.IN_DONT_FOLLOW)
	if err == nil && isNew {
		return w.contents(dir, created)
	}
	return nil, unlessGone(err)
}

// contents watches the subdirectories of a directory, and returns an event for everything that is in it. Files of a directory that was
// created have been written there.
func (w *watch) contents(dir string, created bool) ([]*watchEvent, error) {
	children, err := os.ReadDir(dir)
	if err != nil {
		return nil, unlessGone(err)
	}
	var events []*watchEvent
	for _, child := range children {
		path := filepath.Join(dir, child.Name())
		w.found[path] = struct{}{}
		events = append(events, w.event(path, eventCreate))
		if child.IsDir() {
			inside, err := w.follow(path, created)
			if err != nil {
				return nil, err
			}
			events = append(events, inside...)
		} else if info, err := child.Info(); created && err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			events = append(events, w.event(path, eventWrite))
		}
	}
	return events, nil
}

// add watches one directory. It returns whether it was not watched before: the kernel has one number for each directory, whatever its
// path.
func (w *watch) add(dir string, more uint32) (bool, error) {
	var number int
	err := w.control(func(fd int) (err error) {
		number, err = unix.InotifyAddWatch(fd, dir, watchedEvents|more)
		return err
	})
	if err != nil {
		return false, &fs.PathError{Op: "inotify_add_watch", Path: dir, Err: err}
	}
	_, known := w.dirs[int32(number)]
	w.dirs[int32(number)] = dir
	return !known, nil
}

func (w *watch) rename(from, to string) {
	w.moving = nil
	_ = w.file.SetReadDeadline(time.Time{})
	for number, dir := range w.dirs {
		if isWithin(dir, from) {
			w.dirs[number] = to + strings.TrimPrefix(dir, from)
		}
	}
}

// leave stops watching the directory that has left the watched one.
func (w *watch) leave() error {
	from := w.moving.path
	w.moving = nil
	for number, dir := range w.dirs {
		if !isWithin(dir, from) {
			continue
		}
		delete(w.dirs, number)
		// The directory can have been removed meanwhile.
		_ = w.control(func(fd int) error {
			_, err := unix.InotifyRmWatch(fd, uint32(number))
			return err
		})
	}
	return w.file.SetReadDeadline(time.Time{})
}

func (w *watch) control(call func(fd int) error) error {
	control, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := control.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func isWithin(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// unlessGone ignores that a directory was removed or replaced, which has an event of its own.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

func kindOf(mask uint32) eventEnum {
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return eventCreate
	case mask&unix.IN_MODIFY != 0:
		return eventWrite
	case mask&unix.IN_DELETE != 0:
		return eventRemove
	case mask&unix.IN_MOVED_FROM != 0:
		return eventRename
	case mask&unix.IN_ATTRIB != 0:
		return eventChmod
	default:
		return 0
	}
}
