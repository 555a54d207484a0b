package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "salectl/internal/rapidseed"
)

// anySale draws a sale such as Load returns.
func anySale(t *rapid.T) Sale {
	s := Sale{
		Name:         rapid.StringMatching(nameForm).Draw(t, "name"),
		Run:          rapid.Int64Min(1).Draw(t, "run"),
		Stock:        rapid.Int64Min(1).Draw(t, "stock"),
		PerUserLimit: rapid.Int64Min(1).Draw(t, "limit"),
		LockTTL:      Duration(rapid.Int64Range(2000, 10000).Draw(t, "ttl")) * Duration(time.Millisecond),
		Engine:       EngineLedger, Ack: AckLedger,
		File: "sale.yaml:1",
	}
	redis := rapid.Bool().Draw(t, "redis")
	if redis {
		s.Engine, s.Ack = EngineRedis, rapid.SampledFrom([]Ack{AckLedger, AckRedis}).Draw(t, "ack")
		s.Stock = rapid.Int64Range(1, MaxRedisStock).Draw(t, "packets")
		s.Backlog = rapid.Int64Range(1, MaxBacklog).Draw(t, "backlog")
		if rapid.Bool().Draw(t, "red packet") {
			s.RedPacket = anyRedPacket(t, s.Stock)
		}
	}
	if !redis && rapid.Bool().Draw(t, "payment") {
		s.Payment = anyPayment(t)
	}
	if !redis && rapid.Bool().Draw(t, "who") {
		anyRules(t, &s)
	}
	s.Partial = !redis && rapid.Bool().Draw(t, "partial")
	if !redis && rapid.Bool().Draw(t, "units") {
		anyUnits(t, &s)
	}
	s.LockCount = int(rapid.Int64Range(1, min(s.Stock, MaxLockCount)).Draw(t, "locks"))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(946684800, 32503680000-1).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	if rapid.Bool().Draw(t, "opens") {
		s.OpensAt = moment.Draw(t, "opensAt")
	}
	if rapid.Bool().Draw(t, "closes") {
		s.ClosesAt = moment.Draw(t, "closesAt")
	}
	if rapid.Bool().Draw(t, "embedded") {
		s.Embedded = &Embedded{Dir: rapid.String().Draw(t, "dir")}
		if !redis {
			return s
		}
	}
	if !redis && rapid.Bool().Draw(t, "homes") {
		home := func(name string) Home {
			return Home{Kind: "memory", Place: rapid.String().Draw(t, name)}
		}
		s.Homes = &Homes{Ledger: home("ledger"), Locks: home("locks")}
		s.Homes.Locks.Nodes = rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "nodes")
		return s
	}
	addresses := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}:[1-9][0-9]{0,3}`), 1, 5)
	env := rapid.OneOf(rapid.Just(""), rapid.StringMatching(envForm))
	s.Redis = &Redis{Nodes: addresses.Draw(t, "nodes"), UsernameEnv: env.Draw(t, "user"), PasswordEnv: env.Draw(t, "password"),
		TLS: rapid.Bool().Draw(t, "tls")}
	if s.Embedded != nil {
		return s
	}
	s.HBase = &HBase{Zookeeper: addresses.Draw(t, "zk"), ZookeeperRoot: rapid.StringMatching(znodeForm).Draw(t, "root"),
		Table: rapid.StringMatching(tableForm).Draw(t, "table")}
	return s
}

func anyPayment(t *rapid.T) *Payment {
	term := func(name string, least, most time.Duration) Duration {
		return Duration(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()).Draw(t, name)) * Duration(time.Millisecond)
	}
	p := &Payment{HoldFor: term("holdFor", MinHold, 7*24*time.Hour), Grace: term("grace", 0, time.Hour),
		Late: rapid.SampledFrom([]Late{LateRefuse, LateResell}).Draw(t, "late")}
	if rapid.Bool().Draw(t, "extends") {
		p.ExtendBy = term("extendBy", MinHold, 24*time.Hour)
	}
	text := rapid.StringMatching(`[a-z.=' ]{1,20}`)
	maybe := rapid.OneOf(rapid.Just(""), text)
	if rapid.Bool().Draw(t, "check") {
		p.Check = &PaymentCheck{
			URL:      "https://" + rapid.StringMatching(`[a-z]{1,9}/[a-z]{0,9}`).Draw(t, "url") + "{claim}",
			Interval: term("interval", 100*time.Millisecond, 10*time.Minute), Timeout: term("timeout", 100*time.Millisecond, 30*time.Second),
			Success: text.Draw(t, "success"), Failure: maybe.Draw(t, "failure"), Payment: maybe.Draw(t, "payment"), TokenEnv: maybe.Draw(t, "token"),
		}
	}
	if rapid.Bool().Draw(t, "webhook") {
		p.Webhook = &PaymentWebhook{SecretsEnv: text.Draw(t, "secrets"), Success: text.Draw(t, "paid"), Failure: maybe.Draw(t, "failed"),
			Claim: text.Draw(t, "claim"), Payment: maybe.Draw(t, "reference")}
	}
	return p
}

// anyRules draws who may claim.
func anyRules(t *rapid.T, s *Sale) {
	identifier := rapid.StringMatching("x[a-zA-Z0-9_]{0,20}")
	servers := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}:[1-9][0-9]{0,3}`), 1, 5)
	s.Rules = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		return Rule{Name: rapid.StringMatching(nameForm).Draw(t, "rule"), Require: rapid.StringN(1, -1, -1).Draw(t, "require"),
			Message: rapid.String().Draw(t, "message"), MessageExpression: rapid.String().Draw(t, "expression"),
			Enforce: rapid.SampledFrom([]Enforce{EnforceDeny, EnforceAudit}).Draw(t, "enforce")}
	}), 1, 4).Draw(t, "rules")
	for _, name := range rapid.SliceOf(identifier).Draw(t, "variables") {
		s.Variables = append(s.Variables, Variable{Name: name, Expression: "1"})
	}
	if rapid.Bool().Draw(t, "users") {
		s.Users = &Users{Fresh: rapid.SampledFrom([]Duration{Duration(MinFresh), Duration(1500 * time.Millisecond), Duration(time.Hour)}).Draw(t, "fresh"),
			Cached: rapid.Int64Range(1, 10_000_000).Draw(t, "cached")}
		for _, name := range slices.Sorted(slices.Values(rapid.SliceOfDistinct(identifier, rapid.ID[string]).Draw(t, "attributes"))) {
			s.Users.Attributes = append(s.Users.Attributes, Attribute{name, rapid.SampledFrom(AttributeTypes).Draw(t, "type")})
		}
		if rapid.Bool().Draw(t, "file") {
			s.Users.File = rapid.StringN(1, -1, -1).Draw(t, "path")
		} else {
			s.Users.Table = &UsersTable{Rows{servers.Draw(t, "zk"), "/hbase", "users", "u"}, map[string]string{"a": rapid.StringMatching("([a-z]+)?").Draw(t, "column")}}
		}
	}
	if rapid.Bool().Draw(t, "history") {
		s.History = &History{Table: &Rows{servers.Draw(t, "zk"), "/hbase", "purchases", "h"}}
		if rapid.Bool().Draw(t, "exports") {
			s.History.Files = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "patterns")
		}
	}
	if rapid.Bool().Draw(t, "queue") {
		s.Queue = &Queue{Order: OrderArrival, Depth: rapid.Int64Range(1, 1_000_000).Draw(t, "depth")}
		if rapid.Bool().Draw(t, "priority") {
			s.Queue.Order, s.Queue.Priority = OrderPriority, rapid.StringN(1, -1, -1).Draw(t, "of")
		}
	}
}

// anyUnits draws units that are more than numbers.
func anyUnits(t *rapid.T, s *Sale) {
	s.Units = &Units{Choose: rapid.Bool().Draw(t, "choose")}
	if rapid.Bool().Draw(t, "range") {
		s.Stock = rapid.Int64Range(1, 1e12).Draw(t, "seats")
		s.Units.Ranges = []string{fmt.Sprintf("A1-A%d", s.Stock)}
		return
	}
	s.Units.FromFile, s.Units.File, s.Units.Column = true, rapid.String().Draw(t, "codes"), rapid.StringMatching("([a-z]+)?").Draw(t, "column")
	switch rapid.IntRange(0, 2).Draw(t, "key") {
	case 0:
		s.Units.Secret, s.Units.Choose, s.Units.KeyEnv = true, false, rapid.StringMatching(envForm).Draw(t, "env")
	case 1:
		s.Units.Secret, s.Units.Choose, s.Units.KeyFile = true, false, rapid.String().Draw(t, "key file")
	}
}

// withoutFiles is a sale as FromJSON reads it: it has that there are files, and not which.
func withoutFiles(s Sale) Sale {
	s.File = ""
	if s.Embedded != nil {
		s.Embedded = &Embedded{}
	}
	if s.Users != nil {
		u := *s.Users
		u.File = ""
		s.Users = &u
	}
	if s.History != nil && s.History.Files != nil {
		h := *s.History
		h.Files = []string{}
		s.History = &h
	}
	if s.Units != nil {
		u := *s.Units
		u.File, u.KeyFile = "", ""
		s.Units = &u
	}
	return s
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySale(t)
		data, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		want := withoutFiles(s)
		got, err := FromJSON(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
		// Moved to another folder or zone, it is the same declaration.
		moved := withoutFiles(s)
		moved.File = "elsewhere.yaml:9"
		if s.Embedded != nil {
			moved.Embedded = &Embedded{Dir: "elsewhere"}
		}
		if !s.OpensAt.IsZero() {
			moved.OpensAt = s.OpensAt.In(time.FixedZone("", 8*3600))
		}
		if again, err := moved.JSON(); err != nil || string(again) != string(data) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, again, data)
		}
	})
}

// These bytes stand in ledgers. If this test fails, the change that made it
// fail must go, not the test.
func TestJSONIsCanonical(t *testing.T) {
	opens := time.Date(2026, 11, 11, 20, 0, 0, 0, time.FixedZone("", 8*3600))
	for name, c := range map[string]struct {
		sale Sale
		want string
	}{
		"embedded": {
			Sale{Name: "movie-tickets", Run: 1, Stock: 100, LockCount: 5, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{Dir: "x"}},
			`{"apiVersion":"salectl/v1","name":"movie-tickets","run":1,"stock":100,"lockCount":5,"perUserLimit":1,"lockTtlMs":3000,"embedded":{}}`,
		},
		"servers": {
			Sale{Name: "a", Run: 2, Stock: 9, LockCount: 1, PerUserLimit: 2, OpensAt: opens, ClosesAt: opens.Add(time.Hour), LockTTL: Duration(2500 * time.Millisecond),
				Redis: &Redis{Nodes: []string{"r:1"}, UsernameEnv: "U", PasswordEnv: "P", TLS: true},
				HBase: &HBase{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase", Table: "sales"}},
			`{"apiVersion":"salectl/v1","name":"a","run":2,"stock":9,"lockCount":1,"perUserLimit":2,` +
				`"opensAt":"2026-11-11T12:00:00Z","closesAt":"2026-11-11T13:00:00Z","lockTtlMs":2500,` +
				`"redis":{"nodes":["r:1"],"usernameEnv":"U","passwordEnv":"P","tls":true},` +
				`"hbase":{"zookeeper":["z:1"],"zookeeperRoot":"/hbase","table":"sales"}}`,
		},
		"embedded, in full": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Engine: EngineLedger, Ack: AckLedger, Embedded: &Embedded{}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"lockTtlMs":3000,"embedded":{}}`,
		},
		"partial": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 3, Partial: true, LockTTL: DefaultLockTTL, Embedded: &Embedded{}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":3,"partial":true,"lockTtlMs":3000,"embedded":{}}`,
		},
		"payment": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Payment: &Payment{HoldFor: Duration(10 * time.Minute), Grace: Duration(1500 * time.Millisecond), ExtendBy: Duration(5 * time.Minute), Late: LateResell}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"payment":{"holdForMs":600000,"graceMs":1500,"extendByMs":300000,"late":"resell"},"lockTtlMs":3000,"embedded":{}}`,
		},
		"payment, check and webhook": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Payment: &Payment{HoldFor: Duration(time.Second), Late: LateRefuse,
					Check: &PaymentCheck{URL: "https://a/{claim}", Interval: Duration(5 * time.Second), Timeout: Duration(3 * time.Second),
						Success: "a", Failure: "b", Payment: "c", TokenEnv: "T"},
					Webhook: &PaymentWebhook{SecretsEnv: "S", Success: "d", Failure: "e", Claim: "f", Payment: "g"}}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"payment":{"holdForMs":1000,"graceMs":0,"late":"refuse","check":{"url":"https://a/{claim}","intervalMs":5000,"timeoutMs":3000,"success":"a","failure":"b","payment":"c","tokenEnv":"T"},"webhook":{"secretsEnv":"S","success":"d","failure":"e","claim":"f","payment":"g"}},"lockTtlMs":3000,"embedded":{}}`,
		},
		"payment, the least": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Payment: &Payment{HoldFor: Duration(time.Second), Late: LateRefuse}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"payment":{"holdForMs":1000,"graceMs":0,"late":"refuse"},"lockTtlMs":3000,"embedded":{}}`,
		},
		"rules": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Rules: []Rule{{Name: "members", Require: "user.level > 1", Message: "m", MessageExpression: "'m'", Enforce: EnforceDeny},
					{Name: "seen", Require: "variables.one == 1", Enforce: EnforceAudit}},
				Variables: []Variable{{Name: "one", Expression: "1"}},
				Users:     &Users{Attributes: []Attribute{{"born", TypeTimestamp}, {"level", TypeInt}}, File: "users.csv", Fresh: Duration(1500 * time.Millisecond), Cached: 7},
				History:   &History{Files: []string{"a*.ndjson"}, Table: &Rows{[]string{"z:1"}, "/hbase", "purchases", "h"}},
				Queue:     &Queue{Order: OrderPriority, Priority: "user.level", Depth: 9}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"rules":[{"name":"members","require":"user.level \u003e 1","message":"m","messageExpression":"'m'","enforce":"deny"},{"name":"seen","require":"variables.one == 1","enforce":"audit"}],"variables":[{"name":"one","expression":"1"}],"users":{"attributes":{"born":"timestamp","level":"int"},"freshMs":1500,"cached":7},"history":{"files":[],"hbase":{"zookeeper":["z:1"],"zookeeperRoot":"/hbase","table":"purchases","family":"h"}},"queue":{"order":"priority","priority":"user.level","depth":9},"lockTtlMs":3000,"embedded":{}}`,
		},
		"rules, the least": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Rules:   []Rule{{Name: "known", Require: "user.known", Enforce: EnforceDeny}},
				Users:   &Users{Table: &UsersTable{Rows{[]string{"z:1"}, "/hbase", "users", "u"}, map[string]string{"a": "b"}}, Fresh: Duration(MinFresh), Cached: 1},
				History: &History{Files: []string{}}, Queue: &Queue{Order: OrderArrival, Depth: 1}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"rules":[{"name":"known","require":"user.known","enforce":"deny"}],"users":{"hbase":{"zookeeper":["z:1"],"zookeeperRoot":"/hbase","table":"users","family":"u","columns":{"a":"b"}},"freshMs":1000,"cached":1},"history":{"files":[]},"queue":{"order":"arrival","depth":1},"lockTtlMs":3000,"embedded":{}}`,
		},
		"lists": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Engine: EngineRedis, Ack: AckLedger, Backlog: 100_000,
				Redis: &Redis{Nodes: []string{"r:1"}}, Embedded: &Embedded{}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"engine":"redis","ack":"ledger","backlog":100000,"lockTtlMs":3000,"redis":{"nodes":["r:1"],"tls":false},"embedded":{}}`,
		},
		"red packets": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Engine: EngineRedis, Ack: AckRedis, Backlog: 5,
				RedPacket: &RedPacket{Currency: "CNY", Scale: 2, Total: 10_000, Min: 1, Split: SplitRandom},
				Redis:     &Redis{Nodes: []string{"r:1"}}, Embedded: &Embedded{}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"engine":"redis","ack":"redis","backlog":5,"redPacket":{"total":10000,"currency":"CNY","scale":2,"split":"random","min":1},"lockTtlMs":3000,"redis":{"nodes":["r:1"],"tls":false},"embedded":{}}`,
		},
		"seats": {
			Sale{Name: "a", Run: 1, Stock: 80, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Units: &Units{Ranges: []string{"A1-A40", "B1-B40"}, Choose: true}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":80,"lockCount":1,"perUserLimit":1,"units":{"range":["A1-A40","B1-B40"],"choose":true},"lockTtlMs":3000,"embedded":{}}`,
		},
		"codes": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Units: &Units{File: "x.csv", FromFile: true, Column: "code", KeyEnv: "K", Secret: true}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"units":{"file":true,"column":"code","keyEnv":"K","secret":true},"lockTtlMs":3000,"embedded":{}}`,
		},
		"codes, the key in a file": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Units: &Units{File: "x.csv", FromFile: true, KeyFile: "k", Secret: true}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"units":{"file":true,"secret":true},"lockTtlMs":3000,"embedded":{}}`,
		},
		"seats of a file": {
			Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Embedded: &Embedded{},
				Units: &Units{File: "x.csv", FromFile: true}},
			`{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"units":{"file":true},"lockTtlMs":3000,"embedded":{}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.sale.JSON(); err != nil || string(got) != c.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, c.want)
			}
		})
	}
}

func TestFromJSON(t *testing.T) {
	const stored = `{"apiVersion":"salectl/v1","name":"a","run":1,"stock":9,"lockCount":1,"perUserLimit":1,"lockTtlMs":3000,"embedded":{}}`
	change := func(old, new string) string { return strings.Replace(stored, old, new, 1) }
	const lists = `"embedded":{},"engine":"redis","ack":"redis","backlog":5,` +
		`"redPacket":{"total":90,"currency":"CNY","scale":2,"split":"fixed","min":10}`
	changeLists := func(old, new string) string {
		return change(`"embedded":{}`, strings.Replace(lists, old, new, 1))
	}
	const payment = `"embedded":{},"payment":{"holdForMs":600000,"graceMs":0,"extendByMs":300000,"late":"refuse"}`
	changePayment := func(old, new string) string {
		return change(`"embedded":{}`, strings.Replace(payment, old, new, 1))
	}
	const who = `"embedded":{},"rules":[{"name":"known","require":"user.known","enforce":"deny"}],"history":{"files":[]},` +
		`"users":{"attributes":{"level":"int"},"freshMs":1000,"cached":7},"queue":{"order":"arrival","depth":1}`
	changeWho := func(old, new string) string {
		return change(`"embedded":{}`, strings.Replace(who, old, new, 1))
	}
	const seats = `"embedded":{},"units":{"range":["A1-A5","B1-B4"],"choose":true}`
	changeSeats := func(old, new string) string {
		return change(`"embedded":{}`, strings.Replace(seats, old, new, 1))
	}
	const codes = `"embedded":{},"units":{"file":true,"column":"code","keyEnv":"K","secret":true}`
	changeCodes := func(old, new string) string {
		return change(`"embedded":{}`, strings.Replace(codes, old, new, 1))
	}
	for name, c := range map[string]struct {
		data string
		ok   bool
	}{
		"as stored":             {stored, true},
		"fields of later":       {change(`{}`, `{"dir":"x","fsync":false},"color":"red"`), true},
		"more locks than now":   {change(`9,"lockCount":1`, `9999,"lockCount":5000`), true},
		"nothing":               {"", false},
		"null":                  {"null", false},
		"cut off":               {stored[:40], false},
		"something behind":      {stored + "{}", false},
		"another version":       {change("salectl/v1", "salectl/v2"), false},
		"no version":            {change(`"apiVersion":"salectl/v1",`, ""), false},
		"no name":               {change(`"name":"a",`, ""), false},
		"no stock":              {change(`"stock":9,`, ""), false},
		"no locks":              {change(`"lockCount":1`, `"lockCount":0`), false},
		"more locks than stock": {change(`"lockCount":1`, `"lockCount":10`), false},
		"no limit":              {change(`"perUserLimit":1,`, ""), false},
		"no ttl":                {change(`"lockTtlMs":3000,`, ""), false},
		"endless ttl":           {change("3000", "9223372036854775807"), false},
		"fraction":              {change(`"stock":9`, `"stock":9.5`), false},
		"text":                  {change(`"stock":9`, `"stock":"9"`), false},
		"lists":                 {changeLists("", ""), true},
		"a longer backlog":      {changeLists(`"backlog":5`, `"backlog":50000000`), true},
		"plain units":           {changeLists(`,"redPacket"`, `,"later"`), true},
		"another engine":        {changeLists(`"engine":"redis"`, `"engine":"warp"`), false},
		"no engine":             {changeLists(`"engine":"redis",`, ``), false},
		"no ack":                {changeLists(`"ack":"redis",`, ``), false},
		"another ack":           {changeLists(`"ack":"redis"`, `"ack":"both"`), false},
		"no backlog":            {changeLists(`"backlog":5,`, ``), false},
		"another split":         {changeLists(`fixed`, `weighted`), false},
		"no currency":           {changeLists(`CNY`, ``), false},
		"no total":              {changeLists(`"total":90,`, ``), false},
		"a total in text":       {changeLists(`"total":90`, `"total":"0.90"`), false},
		"a negative total":      {changeLists(`"total":90`, `"total":-90`), false},
		"an endless total":      {changeLists(`"total":90`, `"total":9223372036854775808`), false},
		"a total too small":     {changeLists(`"total":90`, `"total":81`), false},
		"a total with a rest":   {changeLists(`"total":90`, `"total":91`), false},
		"a scale below zero":    {changeLists(`"scale":2`, `"scale":-1`), false},
		"an endless scale":      {changeLists(`"scale":2`, `"scale":1000000000`), false},
		"min below zero":        {changeLists(`"min":10`, `"min":-10`), false},
		"payment":               {changePayment("", ""), true},
		"a longer hold":         {changePayment(`600000`, `600000000`), true},
		"no extension":          {changePayment(`"extendByMs":300000,`, ``), true},
		"no hold":               {changePayment(`"holdForMs":600000,`, ``), false},
		"a hold below zero":     {changePayment(`600000`, `-600000`), false},
		"an endless hold":       {changePayment(`600000`, `288230376152311744`), false}, // 2⁵⁸ + 600000, in nanoseconds 600000 once more
		"an endless hold below": {changePayment(`600000`, `-9223372036854775807`), false},
		"a grace below zero":    {changePayment(`"graceMs":0`, `"graceMs":-1`), false},
		"an endless grace":      {changePayment(`"graceMs":0`, `"graceMs":288230376151711744`), false},
		"extended backwards":    {changePayment(`300000`, `-300000`), false},
		"extended for ever":     {changePayment(`300000`, `288230376152011744`), false},
		"another late":          {changePayment(`refuse`, `auction`), false},
		"no late":               {changePayment(`,"late":"refuse"`, ``), false},
		"payment of lists":      {changeLists(`"embedded":{}`, payment), false},
		"rules":                 {changeWho("", ""), true},
		"another enforce":       {changeWho(`"deny"`, `"warn"`), false},
		"no require":            {changeWho(`"require":"user.known",`, ``), false},
		"another type":          {changeWho(`"int"`, `"set"`), false},
		"no freshness":          {changeWho(`"freshMs":1000,`, ``), false},
		"endless freshness":     {changeWho(`1000`, `288230376151711744`), false},
		"no history":            {changeWho(`"files":[]`, ``), false},
		"another order":         {changeWho(`"arrival"`, `"lottery"`), false},
		"a deeper queue":        {changeWho(`"depth":1`, `"depth":1000000000`), true},
		"rules of lists":        {changeLists(`"embedded":{}`, who), false},
		"no min":                {changeLists(`,"min":10`, ``), false},
		"seats":                 {changeSeats("", ""), true},
		"too few seats":         {changeSeats("A5", "A4"), false},
		"a seat twice":          {changeSeats("B1-B4", "A2-A5"), false},
		"a range backwards":     {changeSeats("B1-B4", "B4-B1"), false},
		"seats with a column":   {changeSeats(`"choose"`, `"column":"x","choose"`), false},
		"seats with a key":      {changeSeats(`"choose":true`, `"secret":true`), false},
		"seats and a file":      {changeSeats(`"choose"`, `"file":true,"choose"`), false},
		"neither":               {changeSeats(`"range":["A1-A5","B1-B4"],`, ``), false},
		"seats of lists":        {changeLists(`"redPacket":{"total":90,"currency":"CNY","scale":2,"split":"fixed","min":10}`, seats[len(`"embedded":{},`):]), false},
		"codes":                 {changeCodes("", ""), true},
		"codes of a key file":   {changeCodes(`"keyEnv":"K",`, ``), true},
		"a key and no secret":   {changeCodes(`,"secret":true`, ``), false},
		"codes to choose":       {changeCodes(`"secret"`, `"choose":true,"secret"`), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := FromJSON([]byte(c.data))
			if (err == nil) != c.ok {
				t.Errorf("got %+v, %v", s, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "stored declaration: ") {
				t.Errorf("the error does not name the field: %v", err)
			}
		})
	}
	if _, err := (Sale{}).JSON(); err == nil {
		t.Error("an empty sale can be stored")
	}
	s, err := FromJSON([]byte(stored))
	if err != nil || s.Engine != EngineLedger || s.Ack != AckLedger || s.Payment != nil {
		t.Errorf("one from before engines and payments: got %+v, %v", s, err)
	}
	s.RedPacket = &RedPacket{Currency: "CNY", Scale: 2, Total: 9, Min: 1, Split: SplitEven}
	if data, err := s.JSON(); err == nil {
		t.Errorf("red packets of engine ledger are stored, as %s", data)
	}
}
