package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bought is one accepted claim as a buyer was told of it.
type bought struct {
	Status int    `json:"status"`
	Claim  string `json:"claim"`
	User   string `json:"user"`
	Key    string `json:"key"`
	Units  []int  `json:"units"`

	// Of a red packet.
	Amounts  []string `json:"amounts,omitempty"`
	Currency string   `json:"currency,omitempty"`
}

// buyers is a program: a crowd that asks several servers for a unit each, and
// asks again with the same key until it has an answer. It shares no code with
// salectl. It writes what it was told it got, a line each, and prints how often
// it heard each outcome.
func buyers() {
	urls := flag.String("urls", "", "where to claim, with commas between")
	users := flag.Int("users", 1000, "how many, each with a key of its own")
	prefix := flag.String("prefix", "user", "what their names begin with")
	at := flag.Int("at", 64, "how many at a time")
	out := flag.String("out", "bought.ndjson", "where to write what was bought")
	flag.Parse()

	c := crowd{urls: strings.Split(*urls, ","), prefix: *prefix, outcomes: map[string]int{}}
	c.client = http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: *at}}
	var next atomic.Int64
	var all sync.WaitGroup
	for range *at {
		all.Go(func() {
			for i := next.Add(1); i <= int64(*users); i = next.Add(1) {
				c.buy(fmt.Sprintf("%s-%d", c.prefix, i))
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
	urls   []string
	prefix string
	client http.Client

	mu       sync.Mutex
	outcomes map[string]int
	bought   []bought
}

// buy asks until there is an answer that will not change.
func (c *crowd) buy(user string) {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		b, outcome, err := c.ask(user)
		switch {
		case err != nil, b.Status == http.StatusServiceUnavailable, b.Status == http.StatusTooManyRequests, outcome == "none_now":
			c.count(outcome)
			time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
			continue
		case b.Status == http.StatusCreated, b.Status == http.StatusOK:
			c.mu.Lock()
			c.bought = append(c.bought, b)
			c.mu.Unlock()
		}
		c.count(outcome)
		return
	}
	c.count("never answered")
}

func (c *crowd) count(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcomes[outcome]++
}

func (c *crowd) ask(user string) (b bought, outcome string, err error) {
	body := fmt.Appendf(nil, `{"user":%q,"quantity":1}`, user)
	request, err := http.NewRequest(http.MethodPost, c.urls[rand.IntN(len(c.urls))], bytes.NewReader(body))
	if err != nil {
		return b, "bad url", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "key-of-"+user)
	response, err := c.client.Do(request)
	if err != nil {
		return b, "no answer", err
	}
	defer response.Body.Close()
	var answer struct {
		Outcome string `json:"outcome"`
		bought
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return b, "no answer", err
	}
	b, b.Status, b.Key = answer.bought, response.StatusCode, "key-of-"+user
	return b, answer.Outcome, nil
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

// compare holds an export against what buyers were told. Every claim that a
// buyer was told of is in the export with the same units, and no unit was sold
// to two of them. It returns how many claims the export has.
func compare(export string, told ...string) (int, error) {
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
	owner := map[int]string{}
	for claim, c := range exported {
		for _, u := range c.Units {
			if other, twice := owner[u]; twice {
				faults = append(faults, fmt.Errorf("unit %d is in the claims %s and %s", u, other, claim))
			}
			owner[u] = claim
		}
	}
	for _, file := range told {
		err := eachLine(file, func(line []byte) error {
			var b bought
			if err := json.Unmarshal(line, &b); err != nil {
				return err
			}
			c, found := exported[b.Claim]
			if !found || c.User != b.User || !slices.Equal(c.Units, b.Units) || !slices.Equal(c.Amounts, b.Amounts) {
				faults = append(faults, fmt.Errorf("%s was told of claim %s with units %v worth %q, and the export has %+v",
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
