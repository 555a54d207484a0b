package hbase

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"salectl/internal/services/scripts"
)

// proxies stand before every region server and master that a handle talks to.
type proxies struct {
	t *testing.T

	mu     sync.Mutex
	of     map[string]*toxiproxy.Proxy // by the server's address
	toxics []string                    // of all of them
}

func newProxies(t *testing.T) *proxies { return &proxies{t: t, of: make(map[string]*toxiproxy.Proxy)} }

// through makes a handle go through them.
func (p *proxies) through(o *Options) {
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		proxy, err := p.before(addr)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, proxy.Listen)
	}
}

func (p *proxies) before(addr string) (*toxiproxy.Proxy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if proxy := p.of[addr]; proxy != nil {
		return proxy, nil
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, addr, scripts.FreeAddress(p.t), addr)
	scripts.Listen(p.t, proxy.Start)
	p.t.Cleanup(proxy.Stop)
	for _, toxic := range p.toxics {
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return nil, err
		}
	}
	p.of[addr] = proxy
	return proxy, nil
}

// poison makes what flows in a direction suffer, on all of them.
func (p *proxies) poison(name, kind, direction, attributes string) {
	p.t.Helper()
	toxic := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{%s}}`, name, kind, direction, attributes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toxics = append(p.toxics, toxic)
	for _, proxy := range p.of {
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// heal takes all poison away.
func (p *proxies) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toxics = nil
	for _, proxy := range p.of {
		proxy.Toxics.ResetToxics(context.Background())
	}
}
