package spec

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// WithFiles returns a declaration that FromJSON has read, with what it does not have: the
// folder, the files, the labels and the annotations of another one of the same sale; of one of
// another sale at the same place only the folder.
func (s Sale) WithFiles(local Sale) Sale {
	if local.Name != s.Name {
		local = Sale{Embedded: local.Embedded}
	}
	if s.Embedded != nil && local.Embedded != nil {
		s.Embedded = &Embedded{Dir: local.Embedded.Dir}
	}
	s.Labels, s.Annotations = local.Labels, local.Annotations
	if s.Users != nil && s.Users.Table == nil && local.Users != nil {
		users := *s.Users
		users.File = local.Users.File
		s.Users = &users
	}
	if s.History != nil && s.History.Files != nil && local.History != nil {
		history := *s.History
		history.Files = local.History.Files
		s.History = &history
	}
	if s.Units != nil && local.Units != nil {
		units := *s.Units
		units.File, units.KeyFile = local.Units.File, local.Units.KeyFile
		s.Units = &units
	}
	if s.Draw != nil && local.Draw != nil {
		draw := *s.Draw
		draw.KeyFile = local.Draw.KeyFile
		s.Draw = &draw
	}
	return s
}

// The names that stand for files which a declaration does not name.
const (
	someUsers    = "USERS.csv"
	someExports  = "EXPORTS/*.ndjson"
	someUnits    = "UNITS.csv"
	someUnitsKey = "UNITS.key"
	someDrawKey  = "DRAW.key"
)

// YAML writes a declaration as a document that Load reads as the same one, as long as paths
// in it are relative to the working directory. What has its default is left out. Where it
// names no file though there has to be one, the document has a name in capitals, and says so.
// The error is for a Sale that Load would not have returned, or whose homes no document can
// name.
func (s Sale) YAML() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	if s.Homes != nil {
		return nil, fmt.Errorf("no document names the place of the sale: %s", s.Homes.Ledger.Place)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s.document()); err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range []string{someUsers, someExports, someUnits, someUnitsKey, someDrawKey} {
		if bytes.Contains(b.Bytes(), []byte(name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return b.Bytes(), nil
	}
	return append(fmt.Appendf(nil, "# The ledger does not say where files are: put yours in place of %s.\n", strings.Join(missing, ", ")), b.Bytes()...), nil
}

func (s Sale) document() saleDocument {
	d := saleDocument{
		APIVersion: APIVersion, Kind: Kind,
		Metadata: metadataPart{Name: s.Name, Run: unless(DefaultRun, s.Run), Protect: s.Protect, Labels: s.Labels, Annotations: s.Annotations},
		Spec: specPart{
			Stock: s.Stock, LockCount: int64(s.LockCount), PerUserLimit: unless(DefaultPerUserLimit, s.PerUserLimit),
			Partial: s.Partial, Phase: string(s.Phase), OpensAt: timeOrNone(s.OpensAt), ClosesAt: timeOrNone(s.ClosesAt),
			Engine: unless(string(EngineLedger), string(s.Engine)), Ack: unless(string(AckLedger), string(s.Ack)),
		},
	}
	p := &d.Spec
	if s.Engine == EngineRedis {
		p.Backlog = unless(DefaultBacklog, s.Backlog)
	}
	if s.LockTTL != DefaultLockTTL {
		p.Lock = &lockPart{TTL: termOrNone(s.LockTTL)}
	}
	p.Payment, p.Units, p.Users, p.History, p.Queue, p.Draw = s.Payment.part(), s.unitsPart(), s.usersPart(), s.historyPart(), s.Queue.part(), s.drawPart()
	for _, r := range s.Rules {
		p.Rules = append(p.Rules, rulePart{Name: r.Name, Require: r.Require, Message: r.Message, MessageExpression: r.MessageExpression, Enforce: unless(string(EnforceDeny), string(r.Enforce))})
	}
	for _, v := range s.Variables {
		p.Variables = append(p.Variables, variablePart{Name: v.Name, Expression: v.Expression})
	}
	if r := s.Redis; r != nil {
		p.Redis = &redisPart{Nodes: r.Nodes, UsernameEnv: r.UsernameEnv, PasswordEnv: r.PasswordEnv, TLS: r.TLS}
	}
	if h := s.HBase; h != nil {
		p.HBase = &hbasePart{Zookeeper: h.Zookeeper, ZookeeperRoot: unless(DefaultZookeeperRoot, h.ZookeeperRoot), Table: h.Table}
	}
	if e := s.Embedded; e != nil {
		p.Embedded = &embeddedPart{Dir: unless(DefaultEmbeddedDir, e.Dir)}
	}
	return d
}

// unless returns a value, or none if it is the default.
func unless[T comparable](normal, value T) T {
	if value == normal {
		var none T
		return none
	}
	return value
}

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func termOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return FormatTerm(d)
}

func (p *Payment) part() *paymentPart {
	if p == nil {
		return nil
	}
	part := &paymentPart{HoldFor: FormatTerm(p.HoldFor), Grace: termOrNone(p.Grace), ExtendBy: termOrNone(p.ExtendBy), Late: unless(string(LateRefuse), string(p.Late))}
	if c := p.Check; c != nil {
		part.Check = &checkPart{
			URL: c.URL, Interval: termOrNone(unless(DefaultCheckInterval, c.Interval)), Timeout: termOrNone(unless(DefaultCheckTimeout, c.Timeout)),
			Success: c.Success, Failure: c.Failure, Payment: c.Payment, TokenEnv: c.TokenEnv,
		}
	}
	if w := p.Webhook; w != nil {
		part.Webhook = &webhookPart{SecretsEnv: w.SecretsEnv, Success: w.Success, Failure: w.Failure, Claim: w.Claim, Payment: w.Payment}
	}
	return part
}

func (s Sale) unitsPart() *unitsPart {
	if r := s.RedPacket; r != nil {
		return &unitsPart{RedPacket: &redPacketPart{Total: r.Format(r.Total), Currency: r.Currency, Split: unless(string(SplitRandom), string(r.Split)), Min: r.Format(r.Min)}}
	}
	u := s.Units
	if u == nil {
		return nil
	}
	part := &unitsPart{Range: u.Ranges, Column: u.Column, KeyEnv: u.KeyEnv, Choose: u.Choose}
	if u.FromFile {
		part.File = orElse(u.File, someUnits)
		part.Public = !u.Secret
	}
	if u.Secret && u.KeyEnv == "" {
		part.KeyFile = orElse(u.KeyFile, someUnitsKey)
	}
	return part
}

func orElse(path, some string) string {
	if path == "" {
		return some
	}
	return path
}

func (s Sale) usersPart() *usersPart {
	u := s.Users
	if u == nil {
		return nil
	}
	part := &usersPart{Fresh: termOrNone(unless(DefaultFresh, u.Fresh))}
	if len(u.Attributes) > 0 {
		part.Attributes = make(map[string]string)
	}
	for _, a := range u.Attributes {
		part.Attributes[a.Name] = a.Type
	}
	t := u.Table
	if t == nil {
		part.File = orElse(u.File, someUsers)
		return part
	}
	part.Cached = unless(DefaultCached, u.Cached)
	part.HBase = &usersTablePart{Table: t.Table, Family: t.Family, Columns: maps.Clone(t.Columns)}
	part.HBase.Zookeeper, part.HBase.ZookeeperRoot = s.elsewhere(t.Zookeeper, t.ZookeeperRoot)
	return part
}

// elsewhere returns where a table is, if that is not where the ledger is.
func (s Sale) elsewhere(zookeeper []string, root string) ([]string, string) {
	switch h := s.HBase; {
	case h == nil || !slices.Equal(zookeeper, h.Zookeeper):
		return zookeeper, unless(DefaultZookeeperRoot, root)
	case root == h.ZookeeperRoot:
		return nil, ""
	}
	return zookeeper, root
}

func (s Sale) historyPart() *historyPart {
	h := s.History
	if h == nil {
		return nil
	}
	part := &historyPart{Files: h.Files}
	if h.Files != nil && len(h.Files) == 0 {
		part.Files = []string{someExports}
	}
	if t := h.Table; t != nil {
		part.HBase = &historyTablePart{Table: t.Table, Family: t.Family}
		part.HBase.Zookeeper, part.HBase.ZookeeperRoot = s.elsewhere(t.Zookeeper, t.ZookeeperRoot)
	}
	return part
}

func (q *Queue) part() *queuePart {
	if q == nil {
		return nil
	}
	return &queuePart{Order: unless(string(OrderArrival), string(q.Order)), Priority: q.Priority, Depth: unless(DefaultDepth, q.Depth)}
}

func (s Sale) drawPart() *drawPart {
	w := s.Draw
	if w == nil {
		return nil
	}
	part := &drawPart{KeyEnv: w.KeyEnv, Substitutes: &w.Substitutes}
	if w.KeyEnv == "" {
		part.KeyFile = orElse(w.KeyFile, someDrawKey)
	}
	if b := w.Beacon; b != nil {
		part.Beacon = &beaconPart{Name: b.Name, Round: b.Round, Fallback: unless(string(FallbackNone), string(b.Fallback))}
	}
	return part
}
