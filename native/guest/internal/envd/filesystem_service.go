package envd

import (
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"ramet.dev/native/guest/internal/pb"
	"ramet.dev/native/guest/internal/rpc"
	"ramet.dev/native/guest/internal/users"
)

func (s *Server) filesystemRoutes(mux *http.ServeMux) {
	mux.Handle("POST /filesystem.Filesystem/Stat", rpc.Unary(s.stat))
	mux.Handle("POST /filesystem.Filesystem/MakeDir", rpc.Unary(s.makeDir))
	mux.Handle("POST /filesystem.Filesystem/Move", rpc.Unary(s.move))
	mux.Handle("POST /filesystem.Filesystem/ListDir", rpc.UnaryList("entries", s.listDir))
	mux.Handle("POST /filesystem.Filesystem/Remove", rpc.Unary(s.remove))
	mux.Handle("POST /filesystem.Filesystem/WatchDir", rpc.ServerStream(s.watchDir))
	mux.Handle("POST /filesystem.Filesystem/CreateWatcher", rpc.Unary(s.createWatcher))
	mux.Handle("POST /filesystem.Filesystem/GetWatcherEvents", rpc.Unary(s.getWatcherEvents))
	mux.Handle("POST /filesystem.Filesystem/RemoveWatcher", rpc.Unary(s.removeWatcher))
}

func (s *Server) stat(r *http.Request, request *pathRequest) (*entryResponse, error) {
	path, _, err := s.path(r, request.Path)
	if err != nil {
		return nil, err
	}
	return entryAt(path)
}

func (s *Server) makeDir(r *http.Request, request *pathRequest) (*entryResponse, error) {
	path, user, err := s.path(r, request.Path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return nil, rpc.Errorf(rpc.AlreadyExists, "making directory %s: it exists", path)
		}
		return nil, rpc.Errorf(rpc.InvalidArgument, "making directory %s: it exists and is not a directory", path)
	}
	if err := makeParents(path, user); err != nil {
		return nil, fileError("making directory", err)
	}
	return entryAt(path)
}

func (s *Server) move(r *http.Request, request *moveRequest) (*entryResponse, error) {
	source, _, err := s.givenPath(r, request.Source)
	if err != nil {
		return nil, err
	}
	destination, user, err := s.givenPath(r, request.Destination)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(source); err != nil {
		return nil, fileError("moving", err)
	}
	if err := makeParents(filepath.Dir(destination), user); err != nil {
		return nil, fileError("moving", err)
	}
	if err := os.Rename(source, destination); err != nil {
		return nil, fileError("moving", err)
	}
	return entryAt(destination)
}

func (s *Server) listDir(r *http.Request, request *listDirRequest) (iter.Seq2[*entryInfo, error], error) {
	root, _, err := s.path(r, request.Path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fileError("listing", err)
	}
	if !info.IsDir() {
		return nil, rpc.Errorf(rpc.InvalidArgument, "listing %s: it is not a directory", root)
	}
	children, err := os.ReadDir(root)
	if err != nil {
		return nil, fileError("listing", err)
	}
	return func(yield func(*entryInfo, error) bool) {
		walk(root, children, walking{depth: max(int(request.Depth), 1), owners: newOwners(), yield: yield})
	}, nil
}

func (s *Server) remove(r *http.Request, request *pathRequest) (*empty, error) {
	path, _, err := s.givenPath(r, request.Path)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(path); err != nil {
		return nil, fileError("removing", err)
	}
	return &empty{}, nil
}

// path returns the absolute form of a caller's path. An empty one is the working directory.
func (s *Server) path(r *http.Request, path string) (string, users.User, error) {
	account, err := s.rpcAccount(r)
	if err != nil {
		return "", account.User, err
	}
	return resolve(path, account), account.User, nil
}

// givenPath is for calls that must not move or remove the working directory by mistake.
func (s *Server) givenPath(r *http.Request, path string) (string, users.User, error) {
	if path == "" {
		return "", users.User{}, rpc.Errorf(rpc.InvalidArgument, "the request has no path")
	}
	return s.path(r, path)
}

type walking struct {
	depth  int
	owners owners
	yield  func(*entryInfo, error) bool
}

// walk returns false when its caller wants no more.
func walk(dir string, children []fs.DirEntry, w walking) bool {
	for _, child := range children {
		path := filepath.Join(dir, child.Name())
		entry, err := describe(path, w.owners)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !w.yield(entry, err) {
			return false
		}
		if !child.IsDir() || w.depth == 1 {
			continue
		}
		inside, err := os.ReadDir(path)
		if err := unlessGone(err); err != nil && !w.yield(nil, err) {
			return false
		}
		deeper := w
		deeper.depth--
		if !walk(path, inside, deeper) {
			return false
		}
	}
	return true
}

// owners looks the names of users and groups up once.
type owners struct{ users, groups map[uint32]string }

func newOwners() owners { return owners{users: map[uint32]string{}, groups: map[uint32]string{}} }

func (o owners) of(stat *syscall.Stat_t) (owner, group string) {
	return once(o.users, stat.Uid, users.Name), once(o.groups, stat.Gid, users.GroupName)
}

func once(known map[uint32]string, id uint32, look func(uint32) string) string {
	name, ok := known[id]
	if !ok {
		name = look(id)
		known[id] = name
	}
	return name
}

func entryAt(path string) (*entryResponse, error) {
	entry, err := describe(path, newOwners())
	if err != nil {
		return nil, fileError("reading the attributes of", err)
	}
	return &entryResponse{Entry: entry}, nil
}

// describe describes a symbolic link as envd does: its type and its mode are those of its target, and the rest is its own.
func describe(path string, owners owners) (*entryInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	mode := info.Mode()
	entry := &entryInfo{Name: info.Name(), Path: path}
	if mode&fs.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target = path
		} else if followed, err := os.Stat(target); err == nil {
			mode = followed.Mode()
		}
		entry.SymlinkTarget = &target
	}
	entry.Type = typeOf(mode)
	entry.Mode = uint32(mode.Perm())
	entry.Size = pb.Int64(info.Size())
	entry.Permissions = info.Mode().String()
	entry.ModifiedTime = pb.TimestampOf(info.ModTime())
	entry.Metadata = metadataOf(path)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		entry.Owner, entry.Group = owners.of(stat)
	}
	return entry, nil
}

func typeOf(mode fs.FileMode) fileTypeEnum {
	switch {
	case mode.IsRegular():
		return typeFile
	case mode.IsDir():
		return typeDirectory
	case mode&fs.ModeSymlink != 0:
		return typeSymlink
	default:
		return typeUnspecified
	}
}

func fileError(doing string, err error) error {
	code := rpc.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = rpc.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = rpc.PermissionDenied
	case errors.Is(err, syscall.ELOOP):
		code = rpc.FailedCondition
	case errors.Is(err, fs.ErrExist):
		code = rpc.AlreadyExists
	case isBadPath(err):
		code = rpc.InvalidArgument
	}
	return rpc.Errorf(code, "%s: %s", doing, err)
}
