package examples

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
)

// bought is one accepted claim as a buyer received it.
type bought struct {
	Status int     `json:"status"`
	Claim  string  `json:"claim"`
	User   string  `json:"user"`
	Key    string  `json:"key"`
	Units  []int64 `json:"units"`

	// Of a red packet.
	Amounts  []string `json:"amounts,omitempty"`
	Currency string   `json:"currency,omitempty"`
}

// buyers is a program: a crowd that claims a unit each at several servers, and
// repeats claims with the same key until it has an answer. It writes each received
// claim, a line each, and prints the number of answers with each outcome.
func buyers() {
	urls := flag.String("urls", "", "where to claim, with commas between")
	users := flag.Int("users", 1000, "how many, each with a key of its own")
	prefix := flag.String("prefix", "user", "what their names begin with")
	at := flag.Int("at", 64, "how many at a time")
	out := flag.String("out", "bought.ndjson", "where to write what was bought")
	flag.Parse()

	c := crowd{outcomes: map[string]int{}, transport: &http.Transport{MaxIdleConnsPerHost: *at}}
	c.urls, c.sale = salesAt(*urls)
	var next atomic.Int64
	var all sync.WaitGroup
	for range *at {
		all.Go(func() {
			for i := next.Add(1); i <= int64(*users); i = next.Add(1) {
				c.buy(fmt.Sprintf("%s-%d", *prefix, i))
			}
		})
	}
	all.Wait()
	if err := c.write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if n := c.outcomes["never answered"]; n > 0 {
		os.Exit(1)
	}
}

type crowd struct {
	urls      []string // of servers
	sale      string
	transport *http.Transport

	mu       sync.Mutex
	outcomes map[string]int
	bought   []bought
}

// salesAt takes URLs of one sale, or of its claims, apart: the servers and the name.
func salesAt(urls string) (servers []string, sale string) {
	for _, url := range strings.Split(urls, ",") {
		server, path, _ := strings.Cut(url, api.SalesPath)
		servers, sale = append(servers, server), strings.TrimSuffix(path, "/claims")
	}
	return servers, sale
}

func request(user string) api.Request {
	return api.Request{User: user, Quantity: 1, Key: "key-of-" + user}
}

// buy repeats a claim until there is an answer that will not change, at any of the servers
// first.
func (c *crowd) buy(user string) {
	servers := slices.Clone(c.urls)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	client, err := api.NewClient(api.Config{
		Servers: servers, Sale: c.sale, Transport: c.transport, Timeout: 15 * time.Second, MaxWait: 80 * time.Millisecond, Later: true,
		Attempted: func(a api.Attempt) bool {
			if a.Answer == nil {
				c.count("no answer")
				return true
			}
			c.count(string(a.Answer.Outcome))
			return a.Answer.Retry() == api.Again || a.Answer.Outcome == api.NoneNow
		},
	})
	if err != nil {
		panic(err) // a URL that a script has made up
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	switch a, err := client.Claim(ctx, request(user)); {
	case err != nil:
		c.count("never answered")
	case a.Outcome.Accepted():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bought = append(c.bought, bought{
			Status: a.Status, Claim: a.Claim.ID, User: a.Claim.User, Key: a.Key, Units: a.Claim.Units,
			Amounts: a.Claim.Amounts, Currency: a.Claim.Currency,
		})
	}
}

func (c *crowd) count(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[outcome]++
}

func (c *crowd) write(file string) error {
	var text bytes.Buffer
	for _, b := range c.bought {
		line, err := json.Marshal(b)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	for _, outcome := range slices.Sorted(maps.Keys(c.outcomes)) {
		fmt.Printf("%s %d\n", outcome, c.outcomes[outcome])
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// compare compares an export with the claims of buyers. Every claim that a
// buyer received is in the export with the same units, and no unit was sold
// to two of them. It returns how many claims the export has.
func compare(export string, received ...string) (int, error) {
	exported := map[string]bought{}
	err := eachLine(export, func(line []byte) error {
		var c bought
		if err := json.Unmarshal(line, &c); err != nil || c.Claim == "" || c.User == "" {
			return err // the header, or a commit
		}
		exported[c.Claim] = c
		return nil
	})
	if err != nil {
		return 0, err
	}
	var faults []error
	owner := map[int64]string{}
	for claim, c := range exported {
		for _, u := range c.Units {
			if other, twice := owner[u]; twice {
				faults = append(faults, fmt.Errorf("unit %d is in the claims %s and %s", u, other, claim))
			}
			owner[u] = claim
		}
	}
	for _, file := range received {
		err := eachLine(file, func(line []byte) error {
			var b bought
			if err := json.Unmarshal(line, &b); err != nil {
				return err
			}
			c, found := exported[b.Claim]
			if !found || c.User != b.User || !slices.Equal(c.Units, b.Units) || !slices.Equal(c.Amounts, b.Amounts) {
				faults = append(faults, fmt.Errorf("%s received claim %s with units %v worth %q, and the export has %+v",
					b.User, b.Claim, b.Units, b.Amounts, c))
			}
			return nil
		})
		faults = append(faults, err)
	}
	return len(exported), errors.Join(faults...)
}

func eachLine(file string, do func([]byte) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if err := do(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return lines.Err()
}
