-- What the store does in Redis, each method at once. KEYS[1] is the prefix of all keys, ARGV[1] the name of the method.
-- All keys have the same hash tag, so a method may use keys that it finds in other keys. Times are microseconds.
local p, call = KEYS[1], redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function read(id)
    return {id, unpack(call('HMGET', p .. 'task:' .. id, 'owner', 'body', 'version', 'fence', 'created', 'updated'))}
end

-- The key of a task, unless it has changed since the caller has read it.
local function current(id, version)
    local key = p .. 'task:' .. id
    return call('HGET', key, 'version') == version and key
end

-- Move a task from the queue that it is in to another one.
local function move(id, key, queue, due)
    call('ZREM', p .. 'queue:' .. call('HGET', key, 'queue'), id)
    call('ZADD', p .. 'queue:' .. queue, due, id)
    call('HSET', key, 'queue', queue)
end

local methods = {}

-- One channel has the messages of all topics, so a subscriber is there before it has a topic to wait for.
function methods.publish(topic, data)
    return call('PUBLISH', p .. 'bus', #topic .. ' ' .. topic .. data)
end

local function tell(topic, changed, queue)
    methods.publish(topic, '')
    if queue ~= '' then
        methods.publish(changed, queue)
    end
end

function methods.insert(id, owner, body, fence, queue, delay, topic, changed, max_owned, max_all)
    local key, owned = p .. 'task:' .. id, p .. 'owner:' .. owner
    local count = tonumber(call('GET', p .. 'count') or 0)
    if count >= tonumber(max_all) or call('ZCARD', owned) >= tonumber(max_owned) or call('EXISTS', key) == 1 then
        return false
    end
    call('INCR', p .. 'count')
    call('ZADD', owned, call('INCR', p .. 'last'), id)
    call('ZADD', p .. 'queue:' .. queue, now + delay, id)
    call('HSET', key, 'owner', owner, 'body', body, 'version', 1, 'fence', fence, 'created', now, 'updated', now,
        'queue', queue)
    tell(topic, changed, queue)
    return now
end

function methods.read(id, owner)
    local task = read(id)
    return {now, task[2] == owner and task or nil}
end

function methods.list(owner, after, limit)
    local tasks, owned, start = {now}, p .. 'owner:' .. owner, '-inf'
    if after ~= '' then
        local place = call('ZSCORE', owned, after)
        if not place then
            return tasks
        end
        start = '(' .. place
    end
    for _, id in ipairs(call('ZRANGEBYSCORE', owned, start, '+inf', 'LIMIT', 0, limit)) do
        tasks[#tasks + 1] = read(id)
    end
    return tasks
end

function methods.claim(limit, hold, ...)
    local heads, tasks = {}, {now}
    for _, queue in ipairs({...}) do
        local due = call('ZRANGEBYSCORE', p .. 'queue:' .. queue, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
        for i = 1, #due, 2 do
            heads[#heads + 1] = {id = due[i], due = tonumber(due[i + 1])}
        end
    end
    table.sort(heads, function(a, b) return a.due < b.due end)
    for i = 1, math.min(tonumber(limit), #heads) do
        local id, key = heads[i].id, p .. 'task:' .. heads[i].id
        move(id, key, '', now + hold)
        call('HINCRBY', key, 'version', 1)
        call('HINCRBY', key, 'fence', 1)
        tasks[i + 1] = read(id)
    end
    return tasks
end

function methods.write(id, version, body, queue, delay, topic, changed)
    local key = current(id, version)
    if not key then
        return false
    end
    move(id, key, queue, now + delay)
    call('HSET', key, 'body', body, 'updated', now, 'version', version + 1)
    tell(topic, changed, queue)
    return now
end

function methods.hold(hold, ...)
    local versions, changed = {...}, {}
    for i = 1, #versions, 2 do
        local key = current(versions[i], versions[i + 1])
        if key then
            move(versions[i], key, '', now + hold)
        else
            changed[#changed + 1] = versions[i]
        end
    end
    return changed
end

function methods.delete(id, version)
    local key = current(id, version)
    if not key then
        return 0
    end
    call('ZREM', p .. 'queue:' .. call('HGET', key, 'queue'), id)
    call('ZREM', p .. 'owner:' .. call('HGET', key, 'owner'), id)
    call('DECR', p .. 'count')
    return call('UNLINK', key)
end

function methods.append(stream, data, maxlen, ttl)
    local key = p .. 'log:' .. stream
    local id = call('XADD', key, 'MAXLEN', maxlen, '*', '', data)
    if ttl == '' then
        call('PERSIST', key)
    else
        call('PEXPIRE', key, ttl)
    end
    return id
end

function methods.take(name, rate, burst)
    local key, tokens, since = p .. 'bucket:' .. name, unpack(call('HMGET', p .. 'bucket:' .. name, 'tokens', 'since'))
    tokens = math.min(burst, (tokens or burst) + (now - (since or now)) / 1000000 * rate)
    local allowed = tokens >= 1 and 1 or 0
    tokens = tokens - allowed
    call('HSET', key, 'tokens', string.format('%.17g', tokens), 'since', now)
    if tonumber(rate) > 0 then
        call('PEXPIRE', key, math.ceil((burst - tokens) / rate * 1000) + 1)
        return {allowed, allowed == 1 and '0' or string.format('%.17g', (1 - tokens) / rate)}
    end
    return {allowed, allowed == 1 and '0' or 'inf'}
end

return methods[ARGV[1]](unpack(ARGV, 2))
