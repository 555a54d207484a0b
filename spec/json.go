package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// stored is the JSON of a declaration. It stands in ledgers for years: a field
// may be added, with a zero that means what its absence meant, but none is
// ever renamed, moved or given another meaning.
type stored struct {
	APIVersion   string          `json:"apiVersion"`
	Name         string          `json:"name"`
	Run          int64           `json:"run"`
	Protect      bool            `json:"protect,omitempty"`
	Stock        int64           `json:"stock"`
	LockCount    int             `json:"lockCount"`
	PerUserLimit int64           `json:"perUserLimit"`
	Partial      bool            `json:"partial,omitempty"`
	Phase        Phase           `json:"phase,omitempty"`
	OpensAt      *time.Time      `json:"opensAt,omitempty"`
	ClosesAt     *time.Time      `json:"closesAt,omitempty"`
	LockTTLMs    int64           `json:"lockTtlMs"`
	Redis        *storedRedis    `json:"redis,omitempty"`
	HBase        *storedHBase    `json:"hbase,omitempty"`
	Embedded     *storedEmbedded `json:"embedded,omitempty"`
	Engine       Engine          `json:"engine,omitempty"` // absent: ledger, and neither ack nor backlog
	Ack          Ack             `json:"ack,omitempty"`
	Backlog      int64           `json:"backlog,omitempty"`
	Units        *storedUnits    `json:"units,omitempty"`
	Homes        *Homes          `json:"homes,omitempty"`
	Payment      *storedPayment  `json:"payment,omitempty"`
	storedWho
}

type storedPayment struct {
	HoldForMs  int64 `json:"holdForMs"`
	GraceMs    int64 `json:"graceMs"`
	ExtendByMs int64 `json:"extendByMs,omitempty"`
	Late       Late  `json:"late"`

	Check   *storedCheck   `json:"check,omitempty"`
	Webhook *storedWebhook `json:"webhook,omitempty"`
}

// storedUnits is without the names of the files: a sale that is moved together with its
// files is the same sale.
type storedUnits struct {
	RedPacket *storedRedPacket `json:"redPacket,omitempty"` // alone

	Range  []string `json:"range,omitempty"`
	File   bool     `json:"file,omitempty"`
	Column string   `json:"column,omitempty"`
	KeyEnv string   `json:"keyEnv,omitempty"`
	Secret bool     `json:"secret,omitempty"`
	Choose bool     `json:"choose,omitempty"`
}

// storedRedPacket has its amounts as Format writes them, with all decimals of
// the currency. So their number says the scale, and a later program that knows
// the currency better deals no other amounts.
type storedRedPacket struct {
	Total    string `json:"total"`
	Currency string `json:"currency"`
	Split    Split  `json:"split"`
	Min      string `json:"min"`
}

type storedRedis struct {
	Nodes       []string `json:"nodes"`
	UsernameEnv string   `json:"usernameEnv,omitempty"`
	PasswordEnv string   `json:"passwordEnv,omitempty"`
	TLS         bool     `json:"tls"`
}

type storedHBase struct {
	Zookeeper     []string `json:"zookeeper"`
	ZookeeperRoot string   `json:"zookeeperRoot"`
	Table         string   `json:"table"`
}

// storedEmbedded is without the folder: a sale that is moved together with its
// files is the same sale, and must not look like a changed one.
type storedEmbedded struct{}

// JSON returns the declaration as it is stored in the ledger and compared by
// plans: one line, in a fixed order, equal for equal declarations. Times are
// RFC 3339 in UTC, what ends in Ms is in milliseconds. File, Labels, Annotations,
// Embedded.Dir and the paths of files are no part of it. The error is for a Sale that Load would not have returned.
func (s Sale) JSON() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	out := stored{
		APIVersion: APIVersion,
		Name:       s.Name, Run: s.Run, Protect: s.Protect,
		Stock: s.Stock, LockCount: s.LockCount, PerUserLimit: s.PerUserLimit, Partial: s.Partial,
		Phase: s.Phase, OpensAt: utc(s.OpensAt), ClosesAt: utc(s.ClosesAt),
		LockTTLMs: s.LockTTL.Milliseconds(),
		Homes:     s.Homes,
	}
	if r := s.Redis; r != nil {
		out.Redis = &storedRedis{r.Nodes, r.UsernameEnv, r.PasswordEnv, r.TLS}
	}
	if h := s.HBase; h != nil {
		out.HBase = &storedHBase{h.Zookeeper, h.ZookeeperRoot, h.Table}
	}
	if s.Embedded != nil {
		out.Embedded = &storedEmbedded{}
	}
	if s.Engine == EngineRedis {
		out.Engine, out.Ack, out.Backlog = s.Engine, s.Ack, s.Backlog
		if r := s.RedPacket; r != nil {
			out.Units = &storedUnits{RedPacket: &storedRedPacket{r.Format(r.Total), r.Currency, r.Split, r.Format(r.Min)}}
		}
	}
	if u := s.Units; u != nil {
		out.Units = &storedUnits{Range: u.Ranges, File: u.FromFile, Column: u.Column, KeyEnv: u.KeyEnv, Secret: u.Secret, Choose: u.Choose}
	}
	if p := s.Payment; p != nil {
		out.Payment = p.stored()
	}
	out.storedWho = s.storeWho()
	return json.Marshal(out)
}

// FromJSON reads what JSON wrote, in this version of the program or another:
// fields that it does not know are ignored. File, Embedded.Dir and paths are empty.
func FromJSON(data []byte) (Sale, error) {
	var in stored
	if err := json.Unmarshal(data, &in); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	if in.APIVersion != APIVersion {
		return Sale{}, fmt.Errorf("stored declaration: it is of version %q, and this program reads %s: use a newer one",
			in.APIVersion, APIVersion)
	}
	if err := in.tooLong(); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	s := Sale{
		Name: in.Name, Run: in.Run, Protect: in.Protect,
		Stock: in.Stock, LockCount: in.LockCount, PerUserLimit: in.PerUserLimit, Partial: in.Partial, Phase: in.Phase,
		LockTTL: milliseconds(in.LockTTLMs),
		Homes:   in.Homes,
	}
	if in.OpensAt != nil {
		s.OpensAt = in.OpensAt.UTC()
	}
	if in.ClosesAt != nil {
		s.ClosesAt = in.ClosesAt.UTC()
	}
	if r := in.Redis; r != nil {
		s.Redis = &Redis{r.Nodes, r.UsernameEnv, r.PasswordEnv, r.TLS}
	}
	if h := in.HBase; h != nil {
		s.HBase = &HBase{h.Zookeeper, h.ZookeeperRoot, h.Table}
	}
	if in.Embedded != nil {
		s.Embedded = &Embedded{}
	}
	s.Engine, s.Ack, s.Backlog = in.Engine, in.Ack, in.Backlog
	if s.Engine == "" {
		s.Engine, s.Ack = EngineLedger, AckLedger
	}
	switch u := in.Units; {
	case u == nil:
	case u.RedPacket != nil:
		if s.RedPacket = u.RedPacket.read(); s.RedPacket == nil {
			return Sale{}, errors.New("stored declaration: the amounts of its red packet cannot be read")
		}
	default:
		s.Units = &Units{Ranges: u.Range, FromFile: u.File, Column: u.Column, KeyEnv: u.KeyEnv, Secret: u.Secret, Choose: u.Choose}
	}
	if p := in.Payment; p != nil {
		s.Payment = p.read()
	}
	in.storedWho.read(&s)
	if err := s.sane(); err != nil {
		return Sale{}, fmt.Errorf("stored declaration: %w", err)
	}
	return s, nil
}

// read returns the red packet; nil if its amounts are none.
func (s storedRedPacket) read() *RedPacket {
	_, decimals, _ := strings.Cut(s.Total, ".")
	r := &RedPacket{Currency: s.Currency, Scale: len(decimals), Split: s.Split}
	var totalOK, minOK bool
	r.Total, totalOK = r.Parse(s.Total)
	r.Min, minOK = r.Parse(s.Min)
	if !totalOK || !minOK {
		return nil
	}
	return r
}

// tooLong reports a duration that no time.Duration holds.
func (s stored) tooLong() error {
	payment, users := s.Payment, s.Users
	if payment == nil {
		payment = new(storedPayment)
	}
	if users == nil {
		users = new(storedUsers)
	}
	check := payment.Check
	if check == nil {
		check = new(storedCheck)
	}
	for _, field := range []struct {
		name string
		ms   int64
	}{
		{"lockTtlMs", s.LockTTLMs}, {"freshMs", users.FreshMs},
		{"holdForMs", payment.HoldForMs}, {"graceMs", payment.GraceMs}, {"extendByMs", payment.ExtendByMs},
		{"intervalMs", check.IntervalMs}, {"timeoutMs", check.TimeoutMs},
	} {
		if longest := math.MaxInt64 / int64(time.Millisecond); field.ms > longest || field.ms < -longest {
			return fmt.Errorf("%s is %d, which is too long", field.name, field.ms)
		}
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// sane holds a declaration to what the rest of the program takes for granted.
// Limits that a later version may move are not asked here: what was accepted
// once stays readable. Nor is the place of the sale, since that is taken from
// the document that leads to the ledger.
func (s Sale) sane() error {
	switch {
	case !nameRE.MatchString(s.Name):
		return fmt.Errorf("the name %q is no DNS label", s.Name)
	case s.Run < 1 || s.Stock < 1 || s.LockCount < 1 || s.PerUserLimit < 1:
		return errors.New("run, stock, lockCount and perUserLimit must be at least 1")
	case int64(s.LockCount) > s.Stock:
		return errors.New("lockCount is above stock")
	case s.LockTTL <= 0 || s.LockTTL%time.Millisecond != 0:
		return fmt.Errorf("the lock's ttl of %v is no positive number of milliseconds", s.LockTTL)
	case s.Phase != "" && !slices.Contains(phases, s.Phase):
		return fmt.Errorf("the phase %q is not known to this program: use a newer one", s.Phase)
	}
	if s.Payment != nil {
		if err := s.Payment.check(); err != nil {
			return err
		}
	}
	if err := s.saneRules(); err != nil {
		return err
	}
	return s.saneEngine()
}

// saneEngine is the part of sane that says how units are given out. A Sale made
// by hand may leave the engine out, and then gets that of old.
func (s Sale) saneEngine() error {
	switch {
	case s.Engine == "" || s.Engine == EngineLedger:
		if s.Ack != "" && s.Ack != AckLedger || s.Backlog != 0 || s.RedPacket != nil {
			return errors.New("ack, backlog and red packets stand without engine redis")
		}
		if s.Units != nil {
			return s.Units.check(s.Stock)
		}
	case s.Engine != EngineRedis:
		return fmt.Errorf("the engine %q is not known to this program: use a newer one", s.Engine)
	case s.Ack != AckLedger && s.Ack != AckRedis:
		return fmt.Errorf("the ack %q is not known to this program: use a newer one", s.Ack)
	case s.Payment != nil:
		return errors.New("payment stands with engine redis")
	case s.Partial:
		return errors.New("partial stands with engine redis")
	case s.Units != nil:
		return errors.New("units that are no red packets stand with engine redis")
	case s.who():
		return errors.New("rules, variables, users, history or queue stand with engine redis")
	case s.Backlog < 1:
		return errors.New("backlog must be at least 1")
	case s.RedPacket != nil:
		return s.RedPacket.Check(s.Stock)
	}
	return nil
}

// utc is t in UTC; nil if t is not set.
func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
