-- For wrk: a number from 1 to 1000, another each time, in place of the N of the page's address.
local page
function init(arguments)
    page = wrk.path
    math.randomseed(os.time())
end
function request()
    return wrk.format(nil, (page:gsub("N", math.random(1000), 1)))
end
