package envd

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"ramet.dev/native/guest/internal/rpc"
)

const (
	// maxWatchers and maxKeptEvents limit the memory of clients that stop polling.
	maxWatchers   = 64
	maxKeptEvents = 4096
)

// watchers holds the polled watchers by id.
type watchers struct {
	mu   sync.Mutex
	byID map[string]*polled
}

type polled struct {
	watch   *watch
	request *watchRequest

	mu     sync.Mutex
	events []*watchEvent
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
		var message watchResponse
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-keepalive.C:
			message.Keepalive = &empty{}
		case event, ok := <-w.events:
			if !ok {
				return rpc.Errorf(rpc.Internal, "watching %s: too many events; start a new watch", w.root)
			}
			message.Filesystem = withEntry(event, w.root, request.IncludeEntry)
		}
		if err := out.Send(&message); err != nil {
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
		return nil, rpc.Errorf(rpc.ResourceExhausted, "there are %d watchers: remove some", maxWatchers)
	}
	id := rand.Text()
	p := &polled{watch: w, request: request}
	s.watchers.byID[id] = p
	go p.collect()
	return &watcherID{ID: id}, nil
}

func (s *Server) getWatcherEvents(_ *http.Request, request *watcherID) (*watchEvents, error) {
	s.watchers.mu.Lock()
	p, ok := s.watchers.byID[request.ID]
	s.watchers.mu.Unlock()
	if !ok {
		return nil, rpc.Errorf(rpc.NotFound, "there is no watcher %q", request.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	if events == nil {
		events = []*watchEvent{}
	}
	return &watchEvents{Events: events}, nil
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

// collect keeps the newest events until they are polled.
func (p *polled) collect() {
	for event := range p.watch.events {
		event = withEntry(event, p.watch.root, p.request.IncludeEntry)
		p.mu.Lock()
		if len(p.events) == maxKeptEvents {
			p.events = p.events[1:]
		}
		p.events = append(p.events, event)
		p.mu.Unlock()
	}
}

func withEntry(event *watchEvent, root string, wanted bool) *watchEvent {
	if wanted && event.Type != eventRemove && event.Type != eventRename {
		if entry, err := describe(filepath.Join(root, event.Name)); err == nil {
			event.Entry = entry
		}
	}
	return event
}
