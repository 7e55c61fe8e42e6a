package ship

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxReply is the maximum size of a response.
const maxReply = 1 << 20

// poster posts to an HTTP receiver.
type poster struct {
	client *http.Client
	sink   Sink
	header string // for the token
	prefix string
}

func newPoster(s Sink, header, prefix string) (*poster, error) {
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	if s.Token != "" {
		if _, err := readToken(s.Token); err != nil {
			return nil, err
		}
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	c := &http.Client{
		Transport: t, Timeout: time.Duration(s.Timeout),
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &poster{c, s, header, prefix}, nil
}

// post sends one request. It returns a complete response with a successful status. The token and the address's path are masked in
// the response and in errors, because receivers may echo them.
func (p *poster) post(ctx context.Context, to, contentType string, body []byte, more http.Header) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "toolguard-ship")
	maps.Copy(req.Header, more)
	token := ""
	if p.sink.Token != "" {
		if token, err = readToken(p.sink.Token); err != nil {
			return nil, err
		}
		req.Header.Set(p.header, p.prefix+token)
	}
	secrets := []string{token, secretPath(p.sink.URL)}
	resp, err := p.client.Do(req)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the address
		}
		return nil, errors.New(mask(err.Error(), secrets...))
	}
	defer resp.Body.Close()
	resp.Status = mask(resp.Status, secrets...)
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("the response %s is incomplete: %s", resp.Status, mask(err.Error(), secrets...))
	}
	text := mask(string(reply), secrets...)
	return []byte(text), checkStatus(resp, text)
}

// secretPath returns an address's path, which often is the only credential of a webhook.
func secretPath(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.Path, "/")
}

// mask replaces secrets in a receiver's text, which is logged and shown. It recognizes them as they are, and as encoded in JSON,
// HTML and URLs.
func mask(text string, secrets ...string) string {
	for _, s := range secrets {
		if s == "" {
			continue
		}
		quoted, _ := json.Marshal(s)
		for _, encoded := range []string{
			s, string(quoted[1 : len(quoted)-1]), strings.ReplaceAll(s, "/", `\/`), html.EscapeString(s), url.QueryEscape(s), (&url.URL{Path: s}).EscapedPath(),
		} {
			text = strings.ReplaceAll(text, encoded, "***")
		}
	}
	return text
}

// checkStatus returns the error for a response status.
func checkStatus(resp *http.Response, reply string) error {
	why := resp.Status
	if text := strings.TrimSpace(reply); text != "" {
		why += ": " + text
	}
	err := errors.New("the response is " + why)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &retryLater{err, retryAfter(resp.Header.Get("Retry-After"))}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return err
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired:
		return err // the records aren't the cause
	}
	switch resp.StatusCode / 100 {
	case 2:
		return nil
	case 4:
		return &rejection{why}
	case 5:
		return &receiverError{err.Error()}
	}
	return err
}

// retryAfter parses the header's seconds or time.
func retryAfter(value string) time.Duration {
	if n, err := strconv.Atoi(value); err == nil && n < 1<<20 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at)
	}
	return 0
}

// webhook posts records, one on each line.
type webhook struct{ *poster }

func openWebhook(s Sink) (sender, error) {
	p, err := newPoster(s, orElse(s.Header, "Authorization"), orElse(s.Prefix, "Bearer "))
	return &webhook{p}, err
}

func (w *webhook) send(ctx context.Context, records []record) (int, error) {
	contentType := "application/x-ndjson"
	if w.sink.Format == "text" {
		contentType = "text/plain; charset=utf-8"
	}
	if _, err := w.post(ctx, w.sink.URL, contentType, lines(records), nil); err != nil {
		return 0, err
	}
	return len(records), nil
}
