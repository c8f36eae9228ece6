package envd

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"ramet.dev/native/guest/internal/rpc"
)

// maxWatchers limits the memory of clients that stop polling.
const maxWatchers = 64

// watchers holds the polled watchers by id.
type watchers struct {
	mu   sync.Mutex
	byID map[string]*polled
}

type polled struct {
	watch   *watch
	request *watchRequest
}

func newWatchers() *watchers { return &watchers{byID: map[string]*polled{}} }

func (s *Server) watchDir(r *http.Request, request *watchRequest, out *rpc.Sender[watchResponse]) error {
	w, err := s.openWatch(r, request)
	if err != nil {
		return err
	}
	defer w.close()
	if err := out.Send(&watchResponse{Start: &empty{}}); err != nil {
		return err
	}
	keepalive := time.NewTicker(keepaliveOf(r))
	defer keepalive.Stop()
	for {
		events, err := w.take()
		if err != nil {
			return watchError(err)
		}
		for _, event := range events {
			if err := out.Send(&watchResponse{Filesystem: withEntry(event, w.root, request.IncludeEntry)}); err != nil {
				return err
			}
		}
		select {
		case <-r.Context().Done():
			return context.Cause(r.Context())
		case <-keepalive.C:
			err = out.Send(&watchResponse{Keepalive: &empty{}})
		case <-w.changed:
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) createWatcher(r *http.Request, request *watchRequest) (*watcherID, error) {
	w, err := s.openWatch(r, request)
	if err != nil {
		return nil, err
	}
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	if len(s.watchers.byID) == maxWatchers {
		w.close()
		return nil, rpc.Errorf(rpc.FailedCondition, "there are %d watchers: remove some", maxWatchers)
	}
	id := rand.Text()
	s.watchers.byID[id] = &polled{watch: w, request: request}
	return &watcherID{ID: id}, nil
}

func (s *Server) getWatcherEvents(_ *http.Request, request *watcherID) (*watchEvents, error) {
	s.watchers.mu.Lock()
	p, ok := s.watchers.byID[request.ID]
	s.watchers.mu.Unlock()
	if !ok {
		return nil, rpc.Errorf(rpc.NotFound, "there is no watcher %q", request.ID)
	}
	events, err := p.watch.take()
	if err != nil {
		return nil, watchError(err)
	}
	response := &watchEvents{Events: []*watchEvent{}}
	for _, event := range events {
		response.Events = append(response.Events, withEntry(event, p.watch.root, p.request.IncludeEntry))
	}
	return response, nil
}

func (s *Server) removeWatcher(_ *http.Request, request *watcherID) (*empty, error) {
	s.watchers.mu.Lock()
	p, ok := s.watchers.byID[request.ID]
	delete(s.watchers.byID, request.ID)
	s.watchers.mu.Unlock()
	if !ok {
		return nil, rpc.Errorf(rpc.NotFound, "there is no watcher %q", request.ID)
	}
	p.watch.close()
	return &empty{}, nil
}

func (s *Server) openWatch(r *http.Request, request *watchRequest) (*watch, error) {
	path, _, err := s.path(r, request.Path)
	if err != nil {
		return nil, err
	}
	if !exists(path) {
		return nil, rpc.Errorf(rpc.NotFound, "watching %s: it does not exist", path)
	}
	if !isDirectory(path) {
		return nil, rpc.Errorf(rpc.InvalidArgument, "watching %s: it is not a directory", path)
	}
	w, err := openWatch(path, request.Recursive)
	if err != nil {
		return nil, fileError("watching", err)
	}
	return w, nil
}

// watchError returns the error that ended a watch.
func watchError(err error) error {
	var coded *rpc.Error
	if errors.As(err, &coded) {
		return err
	}
	return fileError("watching", err)
}

func withEntry(event *watchEvent, root string, wanted bool) *watchEvent {
	if wanted && event.Type != eventRemove && event.Type != eventRename {
		if entry, err := describe(filepath.Join(root, event.Name), newOwners()); err == nil {
			event.Entry = entry
		}
	}
	return event
}
