package executor

import (
	"context"
	"errors"
	"sync"

	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/peers"
)

// switchboard connects executors of one program directly: what goes over a link arrives in
// order, by a goroutine for each direction.
type switchboard struct {
	mu    sync.Mutex
	all   map[string]*reachable // by address
	links []*memLink
}

// reachable is a process that links can be made to.
type reachable struct {
	e    *Executor
	gone bool // nobody reaches it, and it reaches nobody
	held *gate
}

func newSwitchboard() *switchboard { return &switchboard{all: make(map[string]*reachable)} }

// join lets links to a process be made at its address, and from it; what comes and goes
// waits while held is closed.
func (s *switchboard) join(address string, e *Executor, held *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[address] = &reachable{e: e, held: held}
}

// cut ends the links of a process, and lets none be made any more.
func (s *switchboard) cut(address string) {
	s.mu.Lock()
	s.all[address].gone = true
	var over []*memLink
	for _, l := range s.links {
		if l.from == address || l.to == address {
			over = append(over, l)
		}
	}
	s.mu.Unlock()
	for _, l := range over {
		l.cut(errors.New("the link is cut"))
	}
}

// dial is a Dial.
func (s *switchboard) dial(ctx context.Context, from, to ownership.Process, replies peers.Replies, closed func(error)) (peers.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here, there := s.all[from.Address], s.all[to.Address]
	if here == nil || there == nil || here.gone || there.gone {
		return nil, errors.New("the peer cannot be reached")
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &memLink{from: from.Address, to: to.Address, replies: replies, closed: closed, over: cancel, out: newLane(), back: newLane()}
	l.handle, l.gone = there.e.Accept(peers.EncodeHello(from, to).GetHello(), l.reply)
	if l.handle == nil {
		cancel()
		return nil, errors.New("another process answers at the address")
	}
	gates := []*gate{here.held, there.held}
	for _, lane := range []*lane{l.out, l.back} {
		l.lanes.Go(func() { lane.run(ctx, gates) })
	}
	context.AfterFunc(ctx, func() { l.cut(ctx.Err()) })
	s.links = append(s.links, l)
	return l, nil
}

// memLink is a link from one process to another, and sends the replies back.
type memLink struct {
	from, to  string
	replies   peers.Replies
	closed    func(error)
	handle    func(*streampb.Request) bool
	out, back *lane
	lanes     sync.WaitGroup
	gone      func()
	over      context.CancelFunc
	once      sync.Once
}

func (l *memLink) Forward(m *streampb.Request) bool { return l.carry(m) }

func (l *memLink) Update(t *ownership.PeerUpdate) bool {
	all, err := peers.EncodeUpdate(t, streampb.MaxMessage)
	return err == nil && l.carry(all...)
}

func (l *memLink) carry(all ...*streampb.Request) bool {
	return l.out.put(func() {
		for _, r := range all {
			if !l.handle(r) {
				go l.cut(errors.New("the peer has made another link"))
			}
		}
	})
}

func (l *memLink) reply(r *streampb.Reply) error {
	l.back.put(func() { peers.ReceiveReply(r, l.replies) })
	return nil
}

// cut ends the link. What has not arrived is lost.
func (l *memLink) cut(why error) {
	l.once.Do(func() {
		l.over()
		l.out.close()
		l.back.close()
		l.lanes.Wait()
		l.gone()
		l.closed(why)
	})
}

// lane carries what is put into it to the other end, one after the other.
type lane struct {
	mu     sync.Mutex
	queue  []func()
	closed bool
	news   chan struct{}
}

func newLane() *lane { return &lane{news: make(chan struct{}, 1)} }

func (l *lane) put(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, do)
	select {
	case l.news <- struct{}{}:
	default:
	}
	return true
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// run carries, while no gate is closed, until ctx ends.
func (l *lane) run(ctx context.Context, gates []*gate) {
	for {
		select {
		case <-l.news:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		queue := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, do := range queue {
			for _, g := range gates {
				if g.pass(ctx) != nil {
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
			do()
		}
	}
}
